#include "server/rpc/attach_stream.h"

#include "core/status_macros.h"

namespace kvpool::server {

absl::Status AttachStream(const ServiceContext& context, const SessionCall& session,
                          const Peer& peer, const std::shared_ptr<SessionStream>& stream) {
  const ProcessId process = peer.process->id();
  KVPOOL_RETURN_IF_ERROR(
      session.pool->Attach({.session = session.session, .tenant = peer.tenant}, process));
  v1::Notice attached;
  attached.set_kind(v1::Notice::KIND_ATTACHED);
  stream->Send(attached);
  context.sessions.AddProcess(session.session, peer.process);
  context.sessions.SetStream(session.session, stream);
  // The pool may have been told of the process's end before the session was attached to it.
  if (peer.process->is_gone()) session.pool->ProcessGone(process);
  return absl::OkStatus();
}

}  // namespace kvpool::server
