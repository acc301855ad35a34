#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "kvpool/v1/inspect.pb.h"
#include "server/rpc/services.h"

namespace kvpool::server {

// Starts the WatchPrefixes call and returns its reactor, which owns itself: reads the pool's
// changes a few at a time, and on when these have gone, so a slow reader holds a message or two,
// and no pool.
grpc::ServerWriteReactor<v1::WatchPrefixesResponse>* StartWatchPrefixes(
    const ServiceContext& context, grpc::CallbackServerContext* call,
    const v1::WatchPrefixesRequest& request);

}  // namespace kvpool::server
