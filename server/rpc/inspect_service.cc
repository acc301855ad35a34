#include "server/rpc/inspect_service.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "core/status_macros.h"
#include "proto/convert/layout_convert.h"
#include "server/rpc/checksum_calls.h"
#include "server/rpc/list_calls.h"
#include "server/rpc/session_lookup.h"
#include "server/rpc/watch_prefixes.h"

namespace kvpool::server {
namespace {

constexpr uint32_t kMaxSessionBlocks = 65'536;  // In one GetSession.

}  // namespace

grpc::ServerUnaryReactor* InspectService::GetDaemon(grpc::CallbackServerContext* call,
                                                    const v1::GetDaemonRequest* request,
                                                    v1::GetDaemonResponse* response) {
  return calls_.Answer(call, *request, Access::kInspect, Place::kHere,
                       [this, response](const Peer& /*peer*/) {
                         FillDaemon(*response);
                         return absl::OkStatus();
                       });
}

void InspectService::FillDaemon(v1::GetDaemonResponse& response) const {
  response.set_version(context_.version);
  response.set_daemon_epoch(context_.daemon_epoch);
  FromSystemTime(context_.start_time, *response.mutable_start_time());
  for (const DeviceInfo& device : context_.devices.List()) {
    *response.add_devices() = ToMessage(device);
  }
  for (const absl::string_view policy : kEvictionPolicies) {
    response.add_eviction_policies(std::string(policy));
  }
  response.set_block_tracing(context_.trace);
  response.set_draining(context_.draining);
  response.set_reclaim_proof(ToMessage(context_.processes.weakest_proof()));
  response.set_starting(context_.starting);
  for (std::string& warning : context_.warnings()) response.add_warnings(std::move(warning));
}

grpc::ServerWriteReactor<v1::ListPoolsResponse>* InspectService::ListPools(
    grpc::CallbackServerContext* call, const v1::ListPoolsRequest* request) {
  return StartListPools(context_, call, *request);
}

grpc::ServerUnaryReactor* InspectService::GetPool(grpc::CallbackServerContext* call,
                                                  const v1::GetPoolRequest* request,
                                                  v1::GetPoolResponse* response) {
  // A layout has up to 1024 layers to spell out.
  return calls_.Answer(call, *request, Access::kInspect, Place::kWorkers,
                       [this, request, response](const Peer& peer) -> absl::Status {
                         KVPOOL_ASSIGN_OR_RETURN(const ServedPool served,
                                                 context_.pools.Find(request->name()));
                         *response->mutable_pool() = ToMessage(*served.pool, ViewerOf(peer));
                         return absl::OkStatus();
                       });
}

grpc::ServerUnaryReactor* InspectService::PlanPool(grpc::CallbackServerContext* call,
                                                   const v1::PlanPoolRequest* request,
                                                   v1::PlanPoolResponse* response) {
  return calls_.Answer(
      call, *request, Access::kInspect, PlaceFor(request->spec(), Place::kWorkers),
      [this, request, response](const Peer& /*peer*/) -> absl::Status {
        KVPOOL_ASSIGN_OR_RETURN(const PoolSpec spec, SpecFromProto(request->spec()));
        KVPOOL_ASSIGN_OR_RETURN(const PoolLayout layout, context_.pools.Plan(spec));
        *response->mutable_layout() = LayoutToProto(layout);
        return absl::OkStatus();
      });
}

grpc::ServerWriteReactor<v1::ListSessionsResponse>* InspectService::ListSessions(
    grpc::CallbackServerContext* call, const v1::ListSessionsRequest* request) {
  return StartListSessions(context_, call, *request);
}

grpc::ServerUnaryReactor* InspectService::GetSession(grpc::CallbackServerContext* call,
                                                     const v1::GetSessionRequest* request,
                                                     v1::GetSessionResponse* response) {
  return calls_.Answer(call, *request, Access::kInspect, Place::kWorkers,
                       [this, request, response](const Peer& peer) {
                         return FillSession(ViewerOf(peer), *request, *response);
                       });
}

absl::Status InspectService::FillSession(const Viewer& viewer, const v1::GetSessionRequest& request,
                                         v1::GetSessionResponse& response) const {
  KVPOOL_ASSIGN_OR_RETURN(const SessionCall found,
                          FindSessionByPrefix(context_.sessions, request.session_id(), viewer));
  KVPOOL_ASSIGN_OR_RETURN(const SessionInfo session,
                          found.pool->GetSession(found.session, kMaxSessionBlocks));
  *response.mutable_session() = ToMessage(session, found.pool->layout().spec.name,
                                          context_.sessions.Proof(session.id), clock_);
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* InspectService::GetBlock(grpc::CallbackServerContext* call,
                                                   const v1::GetBlockRequest* request,
                                                   v1::GetBlockResponse* response) {
  return calls_.Answer(
      call, *request, Access::kInspect, Place::kWorkers,
      [this, request, response](const Peer& peer) -> absl::Status {
        KVPOOL_ASSIGN_OR_RETURN(const ServedPool served, context_.pools.Find(request->pool()));
        const uint32_t num_blocks = served.pool->layout().num_blocks;
        if (request->block_id() >= num_blocks) {
          return absl::InvalidArgumentError(absl::StrCat("block_id is ", request->block_id(),
                                                         "; pool '", request->pool(), "' has ",
                                                         num_blocks, " blocks"));
        }
        *response->mutable_block() =
            ToMessage(served.pool->GetBlock(BlockId{request->block_id()}), ViewerOf(peer), clock_);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* InspectService::ChecksumLayers(grpc::CallbackServerContext* call,
                                                         const v1::ChecksumLayersRequest* request,
                                                         v1::ChecksumLayersResponse* response) {
  return calls_.AnswerLater(call, *request, Access::kContent, PlaceFor(request->block_ids_size()),
                            [this, request, response](const Peer& /*peer*/, Reply reply) {
                              const absl::Status status =
                                  StartChecksumLayers(context_, *request, *response, reply);
                              if (!status.ok()) reply(status);
                            });
}

grpc::ServerWriteReactor<v1::ChecksumBlocksResponse>* InspectService::ChecksumBlocks(
    grpc::CallbackServerContext* call, const v1::ChecksumBlocksRequest* request) {
  return StartChecksumBlocks(context_, call, *request);
}

grpc::ServerWriteReactor<v1::ListBlocksResponse>* InspectService::ListBlocks(
    grpc::CallbackServerContext* call, const v1::ListBlocksRequest* request) {
  return StartListBlocks(context_, call, *request);
}

grpc::ServerWriteReactor<v1::WatchPrefixesResponse>* InspectService::WatchPrefixes(
    grpc::CallbackServerContext* call, const v1::WatchPrefixesRequest* request) {
  return StartWatchPrefixes(context_, call, *request);
}

}  // namespace kvpool::server
