#pragma once

#include "absl/status/status.h"

#include "kvpool/v1/block.pb.h"
#include "server/peer.h"
#include "server/rpc/services.h"

namespace kvpool::server {

// The calls of BlockService that take and drop references.
absl::Status IncRef(const ServiceContext& context, const Peer& peer,
                    const v1::IncRefRequest& request);
absl::Status DecRef(const ServiceContext& context, const Peer& peer,
                    const v1::DecRefRequest& request, v1::DecRefResponse& response);

}  // namespace kvpool::server
