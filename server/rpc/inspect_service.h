#pragma once

#include "kvpool/v1/inspect.grpc.pb.h"
#include "server/rpc/inspect_convert.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {

// InspectService: tells what registry, hub and pools know, as far as the viewer may see it.
// Changes nothing. Thread-safe; never blocks.
class InspectService final : public v1::InspectService::CallbackService {
 public:
  // `context` must outlive it.
  explicit InspectService(const ServiceContext& context)
      : context_(context), calls_(context), clock_(context.clock) {}

  grpc::ServerUnaryReactor* GetDaemon(grpc::CallbackServerContext* call,
                                      const v1::GetDaemonRequest* request,
                                      v1::GetDaemonResponse* response) override;
  grpc::ServerWriteReactor<v1::ListPoolsResponse>* ListPools(
      grpc::CallbackServerContext* call, const v1::ListPoolsRequest* request) override;
  grpc::ServerUnaryReactor* GetPool(grpc::CallbackServerContext* call,
                                    const v1::GetPoolRequest* request,
                                    v1::GetPoolResponse* response) override;
  grpc::ServerUnaryReactor* PlanPool(grpc::CallbackServerContext* call,
                                     const v1::PlanPoolRequest* request,
                                     v1::PlanPoolResponse* response) override;
  grpc::ServerWriteReactor<v1::ListSessionsResponse>* ListSessions(
      grpc::CallbackServerContext* call, const v1::ListSessionsRequest* request) override;
  grpc::ServerUnaryReactor* GetSession(grpc::CallbackServerContext* call,
                                       const v1::GetSessionRequest* request,
                                       v1::GetSessionResponse* response) override;
  grpc::ServerUnaryReactor* GetBlock(grpc::CallbackServerContext* call,
                                     const v1::GetBlockRequest* request,
                                     v1::GetBlockResponse* response) override;
  grpc::ServerUnaryReactor* ChecksumLayers(grpc::CallbackServerContext* call,
                                           const v1::ChecksumLayersRequest* request,
                                           v1::ChecksumLayersResponse* response) override;
  grpc::ServerWriteReactor<v1::ChecksumBlocksResponse>* ChecksumBlocks(
      grpc::CallbackServerContext* call, const v1::ChecksumBlocksRequest* request) override;
  grpc::ServerWriteReactor<v1::ListBlocksResponse>* ListBlocks(
      grpc::CallbackServerContext* call, const v1::ListBlocksRequest* request) override;
  grpc::ServerWriteReactor<v1::WatchPrefixesResponse>* WatchPrefixes(
      grpc::CallbackServerContext* call, const v1::WatchPrefixesRequest* request) override;

 private:
  void FillDaemon(v1::GetDaemonResponse& response) const;
  absl::Status FillSession(const Viewer& viewer, const v1::GetSessionRequest& request,
                           v1::GetSessionResponse& response) const;

  const ServiceContext& context_;
  UnaryCalls calls_;
  const WallClock clock_;
};

}  // namespace kvpool::server
