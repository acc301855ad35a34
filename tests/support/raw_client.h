#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpc/health/v1/health.pb.h"

#include "kvpool/v1/admin.pb.h"
#include "kvpool/v1/block.pb.h"
#include "kvpool/v1/inspect.pb.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace kvpool::test {

// How a call ended, to compare: "OK", or its code and, where the daemon gave one, the reason:
// "NOT_FOUND SESSION_UNKNOWN".
std::string Said(const absl::Status& status);
template <typename T>
std::string Said(const absl::StatusOr<T>& result) {
  return Said(result.status());
}

// The first `count` of the blocks, with their generations.
v1::Blocks First(const v1::Blocks& blocks, int count);
// The blocks of both lists.
v1::Blocks Joined(v1::Blocks first, const v1::Blocks& second);
// A block without its generation.
v1::Blocks Id(uint32_t block_id);

// One connection, driven by the generated stubs: what any worker can do, right or wrong. Errors
// are the daemon's, with their detail (core/error.h). Thread-safe.
class RawClient {
 public:
  // How long any call may take before the test has failed.
  static constexpr std::chrono::milliseconds kPatience = std::chrono::minutes(5);

  explicit RawClient(std::shared_ptr<grpc::Channel> channel);
  ~RawClient();

  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  absl::StatusOr<v1::OpenSessionResponse> OpenSession(
      const v1::OpenSessionRequest& request, std::chrono::microseconds deadline = kPatience);
  absl::StatusOr<v1::AllocResponse> Alloc(const v1::AllocRequest& request,
                                          std::chrono::microseconds deadline = kPatience);
  absl::Status IncRef(const v1::IncRefRequest& request);
  absl::StatusOr<v1::DecRefResponse> DecRef(const v1::DecRefRequest& request);
  absl::Status CloseSession(const std::string& session_id);
  absl::Status FillBlocks(const v1::FillBlocksRequest& request);
  absl::Status CopyBlocks(const v1::CopyBlocksRequest& request);
  absl::StatusOr<v1::PublishResponse> Publish(const v1::PublishRequest& request);
  absl::StatusOr<v1::LookupResponse> Lookup(const v1::LookupRequest& request,
                                            std::chrono::microseconds deadline = kPatience);
  absl::StatusOr<v1::AcquireResponse> Acquire(const v1::AcquireRequest& request);
  absl::StatusOr<v1::EvictResponse> Evict(const v1::EvictRequest& request);
  // The pieces, in order, until the end.
  absl::StatusOr<std::vector<v1::BlockPiece>> ReadBlocks(const v1::ReadBlocksRequest& request);
  // How many bytes the daemon took. The session is named in the first message.
  absl::StatusOr<uint64_t> WriteBlocks(const std::vector<v1::WriteBlocksRequest>& messages);

  absl::StatusOr<v1::GetDaemonResponse> GetDaemon();
  absl::StatusOr<std::vector<v1::PoolStatus>> ListPools();
  absl::StatusOr<v1::PoolStatus> GetPool(const std::string& name);
  absl::StatusOr<v1::SessionStatus> GetSession(const std::string& session_id);
  absl::StatusOr<v1::BlockStatus> GetBlock(const std::string& pool, uint32_t block_id);
  absl::StatusOr<std::vector<v1::SessionStatus>> ListSessions(const std::string& pool);
  absl::StatusOr<std::vector<v1::BlockStatus>> ListBlocks(const v1::ListBlocksRequest& request);

  absl::StatusOr<v1::ChecksumLayersResponse> ChecksumLayers(
      const v1::ChecksumLayersRequest& request);

  absl::Status CreatePool(const std::string& spec_json);
  absl::Status DeletePool(const std::string& name);
  // How many were forgotten. `tenant` empty: of all.
  absl::StatusOr<uint32_t> ResetPrefixes(const std::string& pool, const std::string& tenant = "");
  absl::Status TerminateSession(const std::string& session_id, bool release_claims);

  absl::Status Drain(const v1::DrainRequest& request);

  absl::StatusOr<grpc::health::v1::HealthCheckResponse::ServingStatus> Health();

  // The bytes of one message of a bidirectional stream, and those of the first answer.
  absl::StatusOr<std::string> Exchange(const std::string& method, const std::string& message);

  // A WatchPrefixes stream.
  class Watch;
  std::unique_ptr<Watch> WatchPrefixes(const v1::WatchPrefixesRequest& request);

  // A KeepAlive stream.
  class Stream;
  std::unique_ptr<Stream> KeepAlive(const std::string& session_id);

 private:
  struct Stubs;

  const std::unique_ptr<const Stubs> stubs_;
};

// A stream of what becomes findable. Broken when destroyed, if it has not ended. Belongs to one
// thread, but for Break.
class RawClient::Watch {
 public:
  virtual ~Watch() = default;
  // Waits for the next event; absent at the end of the stream.
  virtual std::optional<v1::WatchPrefixesResponse> Next() = 0;
  // How the stream ended: waits for it, and drops what events are left.
  virtual absl::Status End() = 0;
  virtual void Break() = 0;
};

// A session's KeepAlive stream: its first notice says that the session is attached. Broken when
// destroyed, if it has not ended. Belongs to one thread.
class RawClient::Stream {
 public:
  virtual ~Stream() = default;
  // Waits for the next notice; absent at the end of the stream.
  virtual std::optional<v1::Notice> Next() = 0;
  // How the stream ended: waits for it, and drops what notices are left.
  virtual absl::Status End() = 0;
};

}  // namespace kvpool::test
