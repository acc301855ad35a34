#pragma once

#include <functional>

#include "absl/status/status.h"
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "kvpool/v1/block.pb.h"
#include "server/rpc/alloc_canceller.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {

// Answer an Alloc or Acquire: at once, or when there is room and its blocks are filled, on any
// thread; one that waits until then or until `canceller` withdraws it. The request, the response
// and the peer must live until `done` is called, the canceller until then and this has returned.
using AllocDone = std::function<void(const absl::Status&)>;
void Alloc(const ServiceContext& context, const Peer& peer, const v1::AllocRequest& request,
           v1::AllocResponse& response, AllocCanceller& canceller, const AllocDone& done);
void Acquire(const ServiceContext& context, const Peer& peer, const v1::AcquireRequest& request,
             v1::AcquireResponse& response, AllocCanceller& canceller, const AllocDone& done);

// The same where the request has no `wait`: nothing is left to withdraw.
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
