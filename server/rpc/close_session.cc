#include "server/rpc/close_session.h"

#include "core/status_macros.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {

absl::Status CloseSession(const ServiceContext& context, const Peer& peer,
                          const v1::CloseSessionRequest& request) {
  KVPOOL_ASSIGN_OR_RETURN(const SessionCall session,
                          FindSession(context.sessions, "session_id", request.session_id()));
  return session.pool->CloseSession({.session = session.session, .tenant = peer.tenant});
}

}  // namespace kvpool::server
