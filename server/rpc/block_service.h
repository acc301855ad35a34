#pragma once

#include "kvpool/v1/block.grpc.pb.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {

// BlockService: each method admits its caller, turns the request into a call of the session's
// Pool, and the result into the answer. Thread-safe; never blocks.
class BlockService final : public v1::BlockService::CallbackService {
 public:
  // `context` must outlive it.
  explicit BlockService(const ServiceContext& context) : context_(context), calls_(context) {}

  grpc::ServerUnaryReactor* OpenSession(grpc::CallbackServerContext* call,
                                        const v1::OpenSessionRequest* request,
                                        v1::OpenSessionResponse* response) override;
  grpc::ServerWriteReactor<v1::KeepAliveResponse>* KeepAlive(
      grpc::CallbackServerContext* call, const v1::KeepAliveRequest* request) override;
  grpc::ServerUnaryReactor* CloseSession(grpc::CallbackServerContext* call,
                                         const v1::CloseSessionRequest* request,
                                         v1::CloseSessionResponse* response) override;
  grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse>* Pipeline(
      grpc::CallbackServerContext* call) override;
  grpc::ServerUnaryReactor* Alloc(grpc::CallbackServerContext* call,
                                  const v1::AllocRequest* request,
                                  v1::AllocResponse* response) override;
  grpc::ServerUnaryReactor* IncRef(grpc::CallbackServerContext* call,
                                   const v1::IncRefRequest* request,
                                   v1::IncRefResponse* response) override;
  grpc::ServerUnaryReactor* DecRef(grpc::CallbackServerContext* call,
                                   const v1::DecRefRequest* request,
                                   v1::DecRefResponse* response) override;
  grpc::ServerUnaryReactor* Publish(grpc::CallbackServerContext* call,
                                    const v1::PublishRequest* request,
                                    v1::PublishResponse* response) override;
  grpc::ServerUnaryReactor* Lookup(grpc::CallbackServerContext* call,
                                   const v1::LookupRequest* request,
                                   v1::LookupResponse* response) override;
  grpc::ServerUnaryReactor* Acquire(grpc::CallbackServerContext* call,
                                    const v1::AcquireRequest* request,
                                    v1::AcquireResponse* response) override;
  grpc::ServerUnaryReactor* Evict(grpc::CallbackServerContext* call,
                                  const v1::EvictRequest* request,
                                  v1::EvictResponse* response) override;
  grpc::ServerUnaryReactor* FillBlocks(grpc::CallbackServerContext* call,
                                       const v1::FillBlocksRequest* request,
                                       v1::FillBlocksResponse* response) override;
  grpc::ServerUnaryReactor* CopyBlocks(grpc::CallbackServerContext* call,
                                       const v1::CopyBlocksRequest* request,
                                       v1::CopyBlocksResponse* response) override;
  grpc::ServerWriteReactor<v1::ReadBlocksResponse>* ReadBlocks(
      grpc::CallbackServerContext* call, const v1::ReadBlocksRequest* request) override;
  grpc::ServerReadReactor<v1::WriteBlocksRequest>* WriteBlocks(
      grpc::CallbackServerContext* call, v1::WriteBlocksResponse* response) override;

 private:
  absl::Status StartFill(const Peer& peer, const v1::FillBlocksRequest& request, Reply reply);
  absl::Status StartCopy(const Peer& peer, const v1::CopyBlocksRequest& request, Reply reply);

  const ServiceContext& context_;
  UnaryCalls calls_;
};

}  // namespace kvpool::server
