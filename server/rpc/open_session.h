#pragma once

#include "absl/status/status.h"

#include "kvpool/v1/block.pb.h"
#include "server/peer.h"
#include "server/rpc/services.h"

namespace kvpool::server {

// Strings of a session that inspection shows and prefix keys take.
inline constexpr size_t kMaxClientNameBytes = 63;
inline constexpr size_t kMaxModelIdBytes = 1024;
inline constexpr Duration kDefaultTtl = std::chrono::seconds(10);

// Opens a session in a pool for `peer`, as `BlockService.OpenSession` says, and answers with what
// mapping its memory takes.
absl::Status OpenSession(const ServiceContext& context, const Peer& peer,
                         const v1::OpenSessionRequest& request, v1::OpenSessionResponse& response);

}  // namespace kvpool::server
