#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "core/ledger/calls.h"
#include "core/pool/pool_ledger.h"

namespace kvpool {

// RunningCall is a long call in progress: it owns the caller's name, keeps the pool alive, and
// keeps the session from expiring until End or its destruction. Not thread-safe.
class RunningCall {
 public:
  // Errors: as Ledger::BeginCall.
  static absl::StatusOr<std::unique_ptr<RunningCall>> Begin(PoolHandle pool, const Caller& caller);

  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;
  ~RunningCall();

  // The call is over, though what it used is still kept.
  void End();

  Caller caller() const { return {.session = session_, .tenant = tenant_}; }
  PoolLedger& ledger() const { return *pool_.ledger; }
  Memory& memory() const { return *pool_.memory; }

 private:
  RunningCall(PoolHandle pool, const Caller& caller);

  const PoolHandle pool_;
  const SessionId session_;
  const std::string tenant_;
  bool is_over_ = false;
};

}  // namespace kvpool
