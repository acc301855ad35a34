#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "client/grpc_transport.h"
#include "client/transport.h"

namespace kvpool::test {

// gRPC to a real daemon: what a test's transport has of every call that it does not change.
// Thread-safe.
class ForwardingTransport : public client::Transport {
 public:
  explicit ForwardingTransport(const std::string& socket)
      : inner_(client::MakeGrpcTransport(socket, std::chrono::seconds(10),
                                         std::chrono::seconds(10))) {}

  absl::Status Alloc(const v1::AllocRequest& request, const client::CallContext& call,
                     v1::AllocResponse& response) override {
    return inner_->Alloc(request, call, response);
  }
  absl::Status OpenSession(const v1::OpenSessionRequest& request, const client::CallContext& call,
                           v1::OpenSessionResponse& response) override {
    return inner_->OpenSession(request, call, response);
  }
  absl::Status CloseSession(const v1::CloseSessionRequest& request, const client::CallContext& call,
                            v1::CloseSessionResponse& response) override {
    return inner_->CloseSession(request, call, response);
  }
  absl::Status IncRef(const v1::IncRefRequest& request, const client::CallContext& call,
                      v1::IncRefResponse& response) override {
    return inner_->IncRef(request, call, response);
  }
  absl::Status DecRef(const v1::DecRefRequest& request, const client::CallContext& call,
                      v1::DecRefResponse& response) override {
    return inner_->DecRef(request, call, response);
  }
  absl::Status Publish(const v1::PublishRequest& request, const client::CallContext& call,
                       v1::PublishResponse& response) override {
    return inner_->Publish(request, call, response);
  }
  absl::Status Lookup(const v1::LookupRequest& request, const client::CallContext& call,
                      v1::LookupResponse& response) override {
    return inner_->Lookup(request, call, response);
  }
  absl::Status Acquire(const v1::AcquireRequest& request, const client::CallContext& call,
                       v1::AcquireResponse& response) override {
    return inner_->Acquire(request, call, response);
  }
  absl::Status Evict(const v1::EvictRequest& request, const client::CallContext& call,
                     v1::EvictResponse& response) override {
    return inner_->Evict(request, call, response);
  }
  absl::Status FillBlocks(const v1::FillBlocksRequest& request, const client::CallContext& call,
                          v1::FillBlocksResponse& response) override {
    return inner_->FillBlocks(request, call, response);
  }
  absl::Status CopyBlocks(const v1::CopyBlocksRequest& request, const client::CallContext& call,
                          v1::CopyBlocksResponse& response) override {
    return inner_->CopyBlocks(request, call, response);
  }
  absl::Status KeepAlive(
      const v1::KeepAliveRequest& request, client::Cancellation& cancellation,
      absl::FunctionRef<void(const v1::KeepAliveResponse&)> on_message) override {
    return inner_->KeepAlive(request, cancellation, on_message);
  }
  absl::Status ReadBlocks(
      const v1::ReadBlocksRequest& request, const client::CallContext& call,
      absl::FunctionRef<bool(const v1::ReadBlocksResponse&)> on_message) override {
    return inner_->ReadBlocks(request, call, on_message);
  }
  absl::Status WriteBlocks(const client::CallContext& call,
                           absl::FunctionRef<bool(v1::WriteBlocksRequest&)> next,
                           v1::WriteBlocksResponse& response) override {
    return inner_->WriteBlocks(call, next, response);
  }
  absl::StatusOr<client::OwnedFd> GetRegionFd(const v1::RegionFdRequest& request,
                                              const client::CallContext& call,
                                              v1::RegionFdResponse& response) override {
    return inner_->GetRegionFd(request, call, response);
  }

 private:
  const std::shared_ptr<client::Transport> inner_;
};

}  // namespace kvpool::test
