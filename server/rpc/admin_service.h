#pragma once

#include "kvpool/v1/admin.grpc.pb.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_calls.h"

namespace kvpool::server {

// AdminService, for operators. Each call that it admits is logged with who made it and how it
// ended. Thread-safe; never blocks.
class AdminService final : public v1::AdminService::CallbackService {
 public:
  // `context` must outlive it.
  explicit AdminService(const ServiceContext& context) : context_(context), calls_(context) {}

  grpc::ServerUnaryReactor* CreatePool(grpc::CallbackServerContext* call,
                                       const v1::CreatePoolRequest* request,
                                       v1::CreatePoolResponse* response) override;
  grpc::ServerUnaryReactor* DeletePool(grpc::CallbackServerContext* call,
                                       const v1::DeletePoolRequest* request,
                                       v1::DeletePoolResponse* response) override;
  grpc::ServerUnaryReactor* ResetPrefixes(grpc::CallbackServerContext* call,
                                          const v1::ResetPrefixesRequest* request,
                                          v1::ResetPrefixesResponse* response) override;
  grpc::ServerUnaryReactor* TerminateSession(grpc::CallbackServerContext* call,
                                             const v1::TerminateSessionRequest* request,
                                             v1::TerminateSessionResponse* response) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* call,
                                  const v1::DrainRequest* request,
                                  v1::DrainResponse* response) override;

 private:
  absl::Status DoCreatePool(const Peer& peer, const v1::CreatePoolRequest& request,
                            v1::CreatePoolResponse& response);
  absl::Status DoResetPrefixes(const v1::ResetPrefixesRequest& request,
                               v1::ResetPrefixesResponse& response);
  absl::Status DoTerminateSession(const v1::TerminateSessionRequest& request);
  absl::Status StartDrain(const v1::DrainRequest& request, Reply reply);

  const ServiceContext& context_;
  UnaryCalls calls_;
};

}  // namespace kvpool::server
