#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include <grpcpp/server.h>

#include "core/ids.h"
#include "server/rpc/services.h"

namespace kvpool::server {

// The gRPC server: our services, reflection and health, no listening port of its own. Connections
// are given to it. A peer that does not answer a ping within `keepalive` of its being sent, one
// each `keepalive`, loses its connection.
//
// Health is NOT_SERVING at first. INTERNAL where gRPC does not start.
absl::StatusOr<std::unique_ptr<grpc::Server>> StartGrpcServer(Services& services,
                                                              Duration keepalive);

// What `grpc.health.v1` answers, for the server as a whole and for each service.
void SetServing(grpc::Server& server, bool is_serving);

}  // namespace kvpool::server
