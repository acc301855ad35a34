#include "core/pool/running_call.h"

#include <utility>

#include "core/status_macros.h"

namespace kvpool {

absl::StatusOr<std::unique_ptr<RunningCall>> RunningCall::Begin(PoolHandle pool,
                                                                const Caller& caller) {
  KVPOOL_RETURN_IF_ERROR(pool.ledger->Run(
      [&caller](Ledger& ledger, TimePoint now) { return ledger.BeginCall(caller, now); }));
  return std::unique_ptr<RunningCall>(new RunningCall(std::move(pool), caller));
}

RunningCall::RunningCall(PoolHandle pool, const Caller& caller)
    : pool_(std::move(pool)), session_(caller.session), tenant_(caller.tenant) {}

RunningCall::~RunningCall() { End(); }

void RunningCall::End() {
  if (std::exchange(is_over_, true)) return;
  pool_.ledger->Run([this](Ledger& ledger, TimePoint now) { ledger.EndCall(session_, now); });
}

}  // namespace kvpool
