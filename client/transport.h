#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "client/cancellation.h"
#include "client/owned_fd.h"
#include "core/ids.h"
#include "kvpool/v1/block.pb.h"

namespace kvpool::client {

// How long an attempt may take (DEADLINE_EXCEEDED), and what ends it before (CANCELLED).
struct CallContext {
  Duration timeout{};
  Cancellation& cancellation;
};

// Carries calls to a daemon and brings the answers: gRPC, or a simulation. Each call is one
// attempt, blocks until it is over, and returns the daemon's error with its detail (core/error.h).
// A response is whole only where the status is OK. Thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual absl::Status OpenSession(const v1::OpenSessionRequest& request, const CallContext& call,
                                   v1::OpenSessionResponse& response) = 0;
  virtual absl::Status CloseSession(const v1::CloseSessionRequest& request, const CallContext& call,
                                    v1::CloseSessionResponse& response) = 0;
  virtual absl::Status Alloc(const v1::AllocRequest& request, const CallContext& call,
                             v1::AllocResponse& response) = 0;
  virtual absl::Status IncRef(const v1::IncRefRequest& request, const CallContext& call,
                              v1::IncRefResponse& response) = 0;
  virtual absl::Status DecRef(const v1::DecRefRequest& request, const CallContext& call,
                              v1::DecRefResponse& response) = 0;
  virtual absl::Status Publish(const v1::PublishRequest& request, const CallContext& call,
                               v1::PublishResponse& response) = 0;
  virtual absl::Status Lookup(const v1::LookupRequest& request, const CallContext& call,
                              v1::LookupResponse& response) = 0;
  virtual absl::Status Acquire(const v1::AcquireRequest& request, const CallContext& call,
                               v1::AcquireResponse& response) = 0;
  virtual absl::Status Evict(const v1::EvictRequest& request, const CallContext& call,
                             v1::EvictResponse& response) = 0;
  virtual absl::Status FillBlocks(const v1::FillBlocksRequest& request, const CallContext& call,
                                  v1::FillBlocksResponse& response) = 0;
  virtual absl::Status CopyBlocks(const v1::CopyBlocksRequest& request, const CallContext& call,
                                  v1::CopyBlocksResponse& response) = 0;

  // Attaches the session and hands each message to `on_message`, in this thread, until the
  // stream ends; returns how.
  virtual absl::Status KeepAlive(
      const v1::KeepAliveRequest& request, Cancellation& cancellation,
      absl::FunctionRef<void(const v1::KeepAliveResponse&)> on_message) = 0;

  // Hands each message to `on_message`, which returns whether to go on.
  virtual absl::Status ReadBlocks(
      const v1::ReadBlocksRequest& request, const CallContext& call,
      absl::FunctionRef<bool(const v1::ReadBlocksResponse&)> on_message) = 0;

  // Sends what `next` fills in, until it returns false.
  virtual absl::Status WriteBlocks(const CallContext& call,
                                   absl::FunctionRef<bool(v1::WriteBlocksRequest&)> next,
                                   v1::WriteBlocksResponse& response) = 0;

  // Asks the fd socket for a region's memory.
  virtual absl::StatusOr<OwnedFd> GetRegionFd(const v1::RegionFdRequest& request,
                                              const CallContext& call,
                                              v1::RegionFdResponse& response) = 0;
};

}  // namespace kvpool::client
