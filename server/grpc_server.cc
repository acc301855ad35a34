#include "server/grpc_server.h"

#include <algorithm>
#include <chrono>

#include "grpc/health/v1/health.pb.h"
#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include "server/limits.h"

namespace kvpool::server {
namespace {

constexpr const char* kServices[] = {"kvpool.v1.BlockService", "kvpool.v1.InspectService",
                                     "kvpool.v1.AdminService"};

// Our client library pings each 10 s. Half of what a client may be expected to ping by leaves room
// for its timer; who pings faster than that is told to go.
constexpr int kMinPingIntervalMs = 5'000;

void SetKeepalive(grpc::ServerBuilder& builder, Duration keepalive) {
  const int interval_ms =
      static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(keepalive).count());
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, interval_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, interval_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             std::min(kMinPingIntervalMs, interval_ms / 2));
}

void SetLimits(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  // No compression: gRPC looks at a message's size only when it is inflated, a thousandfold.
  builder.AddChannelArgument(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
                             1 << GRPC_COMPRESS_NONE);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxConcurrentStreams);
  grpc::ResourceQuota quota("kvpool");
  quota.Resize(kMaxGrpcBytes).SetMaxThreads(kMaxReflectionThreads);
  builder.SetResourceQuota(quota);
  // For reflection alone: one queue, and few threads that wait for it.
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
}

}  // namespace

absl::StatusOr<std::unique_ptr<grpc::Server>> StartGrpcServer(Services& services,
                                                              Duration keepalive) {
  // gRPC serves health with a definition that reflection cannot see; the linker would leave ours
  // out if nothing named it.
  google::protobuf::LinkMessageReflection<grpc::health::v1::HealthCheckRequest>();
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::EnableDefaultHealthCheckService(true);

  grpc::ServerBuilder builder;
  SetKeepalive(builder, keepalive);
  SetLimits(builder);
  services.Register(builder);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return absl::InternalError("gRPC's server does not start");
  SetServing(*server, false);
  return server;
}

void SetServing(grpc::Server& server, bool is_serving) {
  grpc::HealthCheckServiceInterface& health = *server.GetHealthCheckService();
  for (const char* service : kServices) health.SetServingStatus(service, is_serving);
  // The server as a whole, and every service set before.
  health.SetServingStatus(is_serving);
}

}  // namespace kvpool::server
