#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "kvpool/v1/block.pb.h"
#include "server/rpc/services.h"

namespace kvpool::server {

// Starts the Pipeline call and returns its reactor, which owns itself. Calls run one after the
// other; what is answered while a write is in flight travels in the next. A caller that does not
// read is not read from either once some 1 MiB of answers waits for it.
grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse>* StartPipeline(
    const ServiceContext& context, grpc::CallbackServerContext* call);

}  // namespace kvpool::server
