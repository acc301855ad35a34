#pragma once

#include "absl/status/status.h"

#include "kvpool/v1/inspect.pb.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {

inline constexpr size_t kMaxTagBytes = 256;

// Start the checksum calls of InspectService. `reply` is called when the answer is complete and
// logged (of layers, a line each); or the status says at once what is wrong with the request, and
// `reply` is not called.
absl::Status StartChecksumLayers(const ServiceContext& context,
                                 const v1::ChecksumLayersRequest& request,
                                 v1::ChecksumLayersResponse& response, Reply reply);
absl::Status StartChecksumBlocks(const ServiceContext& context,
                                 const v1::ChecksumBlocksRequest& request,
                                 v1::ChecksumBlocksResponse& response, Reply reply);

}  // namespace kvpool::server
