#include "client/kept_session.h"

#include <utility>

#include "client/client_core.h"
#include "client/fork_guard.h"
#include "client/kept_session_core.h"
#include "core/status_macros.h"

namespace kvpool::client {

KeptSession::KeptSession(std::shared_ptr<KeptSessionCore> core) : core_(std::move(core)) {}

KeptSession::~KeptSession() { core_->Close().IgnoreError(); }

absl::StatusOr<std::unique_ptr<KeptSession>> KeptSession::Open(std::shared_ptr<ClientCore> client,
                                                               KeptSessionOptions options) {
  KVPOOL_RETURN_IF_ERROR(client->fork_guard.Check());
  if (options.session.join.has_value()) {
    return absl::InvalidArgumentError(
        "a session that joins another is not kept: the other's id is no more after a loss");
  }
  auto core = MakeForkSafe<KeptSessionCore>(std::move(client), std::move(options));
  KVPOOL_RETURN_IF_ERROR(core->Open());
  return std::unique_ptr<KeptSession>(new KeptSession(std::move(core)));
}

absl::StatusOr<std::shared_ptr<MappedSession>> KeptSession::Current(Duration wait) {
  return core_->Current(wait);
}

absl::Status KeptSession::Close() { return core_->Close(); }

}  // namespace kvpool::client
