#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "kvpool/v1/inspect.pb.h"
#include "server/rpc/services.h"

namespace kvpool::server {

// Blocks in one message of ListBlocks: some 40 bytes each.
inline constexpr uint32_t kListBlocksChunk = 4096;

// Start the list calls of InspectService and return their reactors, which own themselves. Blocks
// and pools are told as they are when their message is filled, the sessions of a pool as they were
// when its first message was.
grpc::ServerWriteReactor<v1::ListPoolsResponse>* StartListPools(
    const ServiceContext& context, grpc::CallbackServerContext* call,
    const v1::ListPoolsRequest& request);
grpc::ServerWriteReactor<v1::ListSessionsResponse>* StartListSessions(
    const ServiceContext& context, grpc::CallbackServerContext* call,
    const v1::ListSessionsRequest& request);
grpc::ServerWriteReactor<v1::ListBlocksResponse>* StartListBlocks(
    const ServiceContext& context, grpc::CallbackServerContext* call,
    const v1::ListBlocksRequest& request);

}  // namespace kvpool::server
