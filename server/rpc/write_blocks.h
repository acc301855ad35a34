#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "kvpool/v1/block.pb.h"
#include "server/rpc/services.h"

namespace kvpool::server {

// Starts the WriteBlocks call and returns its reactor, which owns itself. Each piece is checked
// and written before the next message is read; the first that is wrong ends the stream.
grpc::ServerReadReactor<v1::WriteBlocksRequest>* StartWriteBlocks(
    const ServiceContext& context, grpc::CallbackServerContext* call,
    v1::WriteBlocksResponse* response);

}  // namespace kvpool::server
