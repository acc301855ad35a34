#pragma once

#include <functional>

#include "absl/status/status.h"
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "kvpool/v1/block.pb.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {

// Answer an Alloc or Acquire that does not wait: at once, or when its blocks are filled, on any
// thread. The request must have no `wait`; it, the response and the peer must live until `done` is
// called.
using AllocDone = std::function<void(const absl::Status&)>;
void AllocAtOnce(const ServiceContext& context, const Peer& peer, const v1::AllocRequest& request,
                 v1::AllocResponse& response, const AllocDone& done);
void AcquireAtOnce(const ServiceContext& context, const Peer& peer,
                   const v1::AcquireRequest& request, v1::AcquireResponse& response,
                   const AllocDone& done);

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
