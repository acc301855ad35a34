#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "kvpool/v1/inspect.pb.h"
#include "server/rpc/services.h"

namespace kvpool::server {

// Blocks in one message of ListBlocks: some 40 bytes each, well under a message's limit.
inline constexpr uint32_t kListBlocksChunk = 4096;

// Starts the ListBlocks call and returns its reactor, which owns itself. Sends a chunk at a time,
// each as its blocks are at that moment.
grpc::ServerWriteReactor<v1::ListBlocksResponse>* StartListBlocks(
    const ServiceContext& context, grpc::CallbackServerContext* call,
    const v1::ListBlocksRequest& request);

}  // namespace kvpool::server
