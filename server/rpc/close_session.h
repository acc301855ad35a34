#pragma once

#include "absl/status/status.h"

#include "kvpool/v1/block.pb.h"
#include "server/peer.h"
#include "server/rpc/services.h"

namespace kvpool::server {

// Closes a session for `peer`, as `BlockService.CloseSession` says.
absl::Status CloseSession(const ServiceContext& context, const Peer& peer,
                          const v1::CloseSessionRequest& request);

}  // namespace kvpool::server
