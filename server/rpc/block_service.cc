#include "server/rpc/block_service.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/error.h"
#include "core/status_macros.h"
#include "server/rpc/alloc_call.h"
#include "server/rpc/cache_calls.h"
#include "server/rpc/call_entries.h"
#include "server/rpc/close_session.h"
#include "server/rpc/convert.h"
#include "server/rpc/keep_alive.h"
#include "server/rpc/open_session.h"
#include "server/rpc/pipeline.h"
#include "server/rpc/read_blocks.h"
#include "server/rpc/reference_calls.h"
#include "server/rpc/write_blocks.h"

namespace kvpool::server {
grpc::ServerUnaryReactor* BlockService::OpenSession(grpc::CallbackServerContext* call,
                                                    const v1::OpenSessionRequest* request,
                                                    v1::OpenSessionResponse* response) {
  // A layout has up to 1024 layers to spell out.
  return calls_.Answer(call, *request, Access::kBlocks, Place::kWorkers,
                       [this, request, response](const Peer& peer) {
                         return server::OpenSession(context_, peer, *request, *response);
                       });
}

grpc::ServerWriteReactor<v1::KeepAliveResponse>* BlockService::KeepAlive(
    grpc::CallbackServerContext* call, const v1::KeepAliveRequest* request) {
  return StartKeepAlive(context_, call, *request);
}

grpc::ServerUnaryReactor* BlockService::CloseSession(grpc::CallbackServerContext* call,
                                                     const v1::CloseSessionRequest* request,
                                                     v1::CloseSessionResponse* /*response*/) {
  return calls_.Answer(
      call, *request, Access::kBlocks, Place::kHere,
      [this, request](const Peer& peer) { return server::CloseSession(context_, peer, *request); });
}

grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse>* BlockService::Pipeline(
    grpc::CallbackServerContext* call) {
  return StartPipeline(context_, call);
}

grpc::ServerUnaryReactor* BlockService::Alloc(grpc::CallbackServerContext* call,
                                              const v1::AllocRequest* request,
                                              v1::AllocResponse* response) {
  return StartAlloc(context_, calls_, call, request, response);
}

grpc::ServerUnaryReactor* BlockService::IncRef(grpc::CallbackServerContext* call,
                                               const v1::IncRefRequest* request,
                                               v1::IncRefResponse* /*response*/) {
  return calls_.Answer(
      call, *request, Access::kBlocks, PlaceFor(EntriesOf(*request)),
      [this, request](const Peer& peer) { return server::IncRef(context_, peer, *request); });
}

grpc::ServerUnaryReactor* BlockService::DecRef(grpc::CallbackServerContext* call,
                                               const v1::DecRefRequest* request,
                                               v1::DecRefResponse* response) {
  return calls_.Answer(call, *request, Access::kBlocks, PlaceFor(EntriesOf(*request)),
                       [this, request, response](const Peer& peer) {
                         return server::DecRef(context_, peer, *request, *response);
                       });
}

grpc::ServerUnaryReactor* BlockService::Publish(grpc::CallbackServerContext* call,
                                                const v1::PublishRequest* request,
                                                v1::PublishResponse* response) {
  return calls_.Answer(call, *request, Access::kBlocks, PlaceFor(EntriesOf(*request)),
                       [this, request, response](const Peer& peer) {
                         return server::Publish(context_, peer, *request, *response);
                       });
}

grpc::ServerUnaryReactor* BlockService::Lookup(grpc::CallbackServerContext* call,
                                               const v1::LookupRequest* request,
                                               v1::LookupResponse* response) {
  return calls_.Answer(call, *request, Access::kBlocks, PlaceFor(EntriesOf(*request)),
                       [this, request, response](const Peer& peer) {
                         return server::Lookup(context_, peer, *request, *response);
                       });
}

grpc::ServerUnaryReactor* BlockService::Acquire(grpc::CallbackServerContext* call,
                                                const v1::AcquireRequest* request,
                                                v1::AcquireResponse* response) {
  return StartAcquire(context_, calls_, call, request, response);
}

grpc::ServerUnaryReactor* BlockService::Evict(grpc::CallbackServerContext* call,
                                              const v1::EvictRequest* request,
                                              v1::EvictResponse* response) {
  return calls_.Answer(call, *request, Access::kBlocks, PlaceFor(EntriesOf(*request)),
                       [this, request, response](const Peer& peer) {
                         return server::Evict(context_, peer, *request, *response);
                       });
}

grpc::ServerUnaryReactor* BlockService::FillBlocks(grpc::CallbackServerContext* call,
                                                   const v1::FillBlocksRequest* request,
                                                   v1::FillBlocksResponse* /*response*/) {
  return calls_.AnswerLater(call, *request, Access::kBlocks,
                            PlaceFor(request->blocks().block_ids_size()),
                            [this, request](const Peer& peer, Reply reply) {
                              const absl::Status status = StartFill(peer, *request, reply);
                              if (!status.ok()) reply(status);
                            });
}

// Replies itself where it returns OK.
absl::Status BlockService::StartFill(const Peer& peer, const v1::FillBlocksRequest& request,
                                     Reply reply) {
  KVPOOL_ASSIGN_OR_RETURN(const SessionCall session,
                          FindSession(context_.sessions, "session_id", request.session_id()));
  KVPOOL_ASSIGN_OR_RETURN(
      std::vector<BlockRef> blocks,
      ToBlockRefs("blocks", request.blocks(), context_.limits.max_blocks_per_call));
  if (request.fill() != v1::FILL_ZERO && request.fill() != v1::FILL_POISON) {
    return absl::InvalidArgumentError(absl::StrCat("fill is ", static_cast<int>(request.fill()),
                                                   "; it is FILL_ZERO or FILL_POISON"));
  }
  const Fill fill = request.fill() == v1::FILL_ZERO ? Fill::kZero : Fill::kPoison;
  session.pool->FillBlocks({.session = session.session, .tenant = peer.tenant}, std::move(blocks),
                           fill, [reply](const absl::Status& status) { reply(status); });
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* BlockService::CopyBlocks(grpc::CallbackServerContext* call,
                                                   const v1::CopyBlocksRequest* request,
                                                   v1::CopyBlocksResponse* /*response*/) {
  const int64_t entries =
      int64_t{request->sources().block_ids_size()} + request->destinations().block_ids_size();
  return calls_.AnswerLater(call, *request, Access::kBlocks, PlaceFor(entries),
                            [this, request](const Peer& peer, Reply reply) {
                              const absl::Status status = StartCopy(peer, *request, reply);
                              if (!status.ok()) reply(status);
                            });
}

// Replies itself where it returns OK.
absl::Status BlockService::StartCopy(const Peer& peer, const v1::CopyBlocksRequest& request,
                                     Reply reply) {
  const uint32_t max = context_.limits.max_blocks_per_call;
  KVPOOL_ASSIGN_OR_RETURN(const SessionCall source,
                          FindSession(context_.sessions, "session_id", request.session_id()));
  KVPOOL_ASSIGN_OR_RETURN(std::vector<BlockRef> sources,
                          ToBlockRefs("sources", request.sources(), max));
  KVPOOL_ASSIGN_OR_RETURN(std::vector<BlockRef> destinations,
                          ToBlockRefs("destinations", request.destinations(), max));
  std::shared_ptr<Pool> destination_pool = source.pool;
  std::optional<SessionId> destination_session;
  if (!request.destination_session_id().empty()) {
    KVPOOL_ASSIGN_OR_RETURN(
        SessionCall destination,
        FindSession(context_.sessions, "destination_session_id", request.destination_session_id()));
    destination_pool = std::move(destination.pool);
    destination_session = destination.session;
  }
  Pool::CopyBlocks(source.pool, destination_pool,
                   {.session = source.session, .tenant = peer.tenant}, std::move(sources),
                   std::move(destinations), destination_session,
                   [reply](const absl::Status& status) { reply(status); });
  return absl::OkStatus();
}

grpc::ServerWriteReactor<v1::ReadBlocksResponse>* BlockService::ReadBlocks(
    grpc::CallbackServerContext* call, const v1::ReadBlocksRequest* request) {
  return StartReadBlocks(context_, PlaceFor(request->blocks().block_ids_size()), call, request);
}

grpc::ServerReadReactor<v1::WriteBlocksRequest>* BlockService::WriteBlocks(
    grpc::CallbackServerContext* call, v1::WriteBlocksResponse* response) {
  return StartWriteBlocks(context_, call, response);
}

}  // namespace kvpool::server
