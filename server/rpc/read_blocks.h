#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "kvpool/v1/block.pb.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {

// Starts the ReadBlocks call and returns its reactor, which owns itself. It is opened at `place`.
// Reads a piece, sends it, and reads the next when that has gone: a slow reader holds one piece and
// no block.
grpc::ServerWriteReactor<v1::ReadBlocksResponse>* StartReadBlocks(
    const ServiceContext& context, Place place, grpc::CallbackServerContext* call,
    const v1::ReadBlocksRequest* request);

}  // namespace kvpool::server
