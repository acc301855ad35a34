#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "kvpool/v1/block.pb.h"
#include "server/rpc/services.h"

namespace kvpool::server {

// Starts the KeepAlive call and returns its reactor, which owns itself: attaches the session,
// sends its notices, and detaches it when the stream breaks. `context` must outlive the call.
grpc::ServerWriteReactor<v1::KeepAliveResponse>* StartKeepAlive(
    const ServiceContext& context, grpc::CallbackServerContext* call,
    const v1::KeepAliveRequest& request);

}  // namespace kvpool::server
