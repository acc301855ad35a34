#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "client/transport.h"

namespace kvpool::demo {

// A transport that counts the RPCs made through it, tries again included, and what the daemon
// copied for them. Thread-safe.
class CountingTransport final : public client::Transport {
 public:
  explicit CountingTransport(std::shared_ptr<client::Transport> inner) : inner_(std::move(inner)) {}

  uint64_t calls() const { return calls_; }
  // Blocks copied by CopyBlocks, and bytes carried by ReadBlocks and WriteBlocks.
  uint64_t blocks_copied() const { return blocks_copied_; }
  uint64_t bytes_carried() const { return bytes_carried_; }

  absl::Status OpenSession(const v1::OpenSessionRequest& request, const client::CallContext& call,
                           v1::OpenSessionResponse& response) override {
    ++calls_;
    return inner_->OpenSession(request, call, response);
  }
  absl::Status CloseSession(const v1::CloseSessionRequest& request, const client::CallContext& call,
                            v1::CloseSessionResponse& response) override {
    ++calls_;
    return inner_->CloseSession(request, call, response);
  }
  absl::Status Alloc(const v1::AllocRequest& request, const client::CallContext& call,
                     v1::AllocResponse& response) override {
    ++calls_;
    return inner_->Alloc(request, call, response);
  }
  absl::Status IncRef(const v1::IncRefRequest& request, const client::CallContext& call,
                      v1::IncRefResponse& response) override {
    ++calls_;
    return inner_->IncRef(request, call, response);
  }
  absl::Status DecRef(const v1::DecRefRequest& request, const client::CallContext& call,
                      v1::DecRefResponse& response) override {
    ++calls_;
    return inner_->DecRef(request, call, response);
  }
  absl::Status Publish(const v1::PublishRequest& request, const client::CallContext& call,
                       v1::PublishResponse& response) override {
    ++calls_;
    return inner_->Publish(request, call, response);
  }
  absl::Status Lookup(const v1::LookupRequest& request, const client::CallContext& call,
                      v1::LookupResponse& response) override {
    ++calls_;
    return inner_->Lookup(request, call, response);
  }
  absl::Status Acquire(const v1::AcquireRequest& request, const client::CallContext& call,
                       v1::AcquireResponse& response) override {
    ++calls_;
    return inner_->Acquire(request, call, response);
  }
  absl::Status Evict(const v1::EvictRequest& request, const client::CallContext& call,
                     v1::EvictResponse& response) override {
    ++calls_;
    return inner_->Evict(request, call, response);
  }
  absl::Status FillBlocks(const v1::FillBlocksRequest& request, const client::CallContext& call,
                          v1::FillBlocksResponse& response) override {
    ++calls_;
    return inner_->FillBlocks(request, call, response);
  }
  absl::Status CopyBlocks(const v1::CopyBlocksRequest& request, const client::CallContext& call,
                          v1::CopyBlocksResponse& response) override {
    ++calls_;
    blocks_copied_ += static_cast<uint64_t>(request.sources().block_ids_size());
    return inner_->CopyBlocks(request, call, response);
  }
  absl::Status KeepAlive(
      const v1::KeepAliveRequest& request, client::Cancellation& cancellation,
      absl::FunctionRef<void(const v1::KeepAliveResponse&)> on_message) override {
    ++calls_;
    return inner_->KeepAlive(request, cancellation, on_message);
  }
  absl::Status ReadBlocks(
      const v1::ReadBlocksRequest& request, const client::CallContext& call,
      absl::FunctionRef<bool(const v1::ReadBlocksResponse&)> on_message) override {
    ++calls_;
    return inner_->ReadBlocks(request, call, [&](const v1::ReadBlocksResponse& response) {
      bytes_carried_ += response.piece().data().size();
      return on_message(response);
    });
  }
  absl::Status WriteBlocks(const client::CallContext& call,
                           absl::FunctionRef<bool(v1::WriteBlocksRequest&)> next,
                           v1::WriteBlocksResponse& response) override {
    ++calls_;
    const auto count_next = [&](v1::WriteBlocksRequest& request) {
      const bool has_next = next(request);
      bytes_carried_ += request.piece().data().size();
      return has_next;
    };
    return inner_->WriteBlocks(call, count_next, response);
  }
  // Not an RPC: it goes to the fd socket.
  absl::StatusOr<client::OwnedFd> GetRegionFd(const v1::RegionFdRequest& request,
                                              const client::CallContext& call,
                                              v1::RegionFdResponse& response) override {
    return inner_->GetRegionFd(request, call, response);
  }

 private:
  const std::shared_ptr<client::Transport> inner_;
  std::atomic<uint64_t> calls_ = 0;
  std::atomic<uint64_t> blocks_copied_ = 0;
  std::atomic<uint64_t> bytes_carried_ = 0;
};

}  // namespace kvpool::demo
