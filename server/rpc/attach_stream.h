#pragma once

#include <memory>

#include "absl/status/status.h"

#include "server/peer.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {

// Attaches the session to a stream of `peer`'s: it lives as long as the stream from now on, which
// is sent ATTACHED first and then the session's notices. Where it breaks, or the caller half-closes
// it, Pool::Detach is to be called; before it goes, SessionHub::DropStream.
// Errors: as Pool::Attach. Nothing has changed then.
absl::Status AttachStream(const ServiceContext& context, const SessionCall& session,
                          const Peer& peer, const std::shared_ptr<SessionStream>& stream);

}  // namespace kvpool::server
