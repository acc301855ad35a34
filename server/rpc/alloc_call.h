#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "kvpool/v1/block.pb.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {

// Start the Alloc or Acquire call, which runs where `calls` says, and return its reactor. It may
// wait for room; cancelling it (the client goes, or its deadline passes) withdraws it from the
// queue, and then it has got nothing.
grpc::ServerUnaryReactor* StartAlloc(const ServiceContext& context, UnaryCalls& calls,
                                     grpc::CallbackServerContext* call,
                                     const v1::AllocRequest* request, v1::AllocResponse* response);
grpc::ServerUnaryReactor* StartAcquire(const ServiceContext& context, UnaryCalls& calls,
                                       grpc::CallbackServerContext* call,
                                       const v1::AcquireRequest* request,
                                       v1::AcquireResponse* response);

}  // namespace kvpool::server
