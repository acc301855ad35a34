#pragma once

#include "absl/status/status.h"
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "kvpool/v1/inspect.pb.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {

inline constexpr size_t kMaxTagBytes = 256;

// Entries in one message of ChecksumBlocks: at most some 100 bytes each.
inline constexpr uint32_t kChecksumBlocksChunk = 4096;

// Starts ChecksumLayers. `reply` is called when the answer is complete and logged, a line a layer;
// or the status says at once what is wrong with the request, and `reply` is not called.
absl::Status StartChecksumLayers(const ServiceContext& context,
                                 const v1::ChecksumLayersRequest& request,
                                 v1::ChecksumLayersResponse& response, Reply reply);
// Starts ChecksumBlocks and returns its reactor, which owns itself.
grpc::ServerWriteReactor<v1::ChecksumBlocksResponse>* StartChecksumBlocks(
    const ServiceContext& context, grpc::CallbackServerContext* call,
    const v1::ChecksumBlocksRequest& request);

}  // namespace kvpool::server
