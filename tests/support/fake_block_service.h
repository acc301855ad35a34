#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include <grpcpp/grpcpp.h>

#include "core/error.h"
#include "core/ids.h"
#include "core/layout/pool_layout.h"
#include "core/mutex.h"
#include "kvpool/v1/block.grpc.pb.h"
#include "tests/support/fake_daemon.h"

namespace kvpool::test {

class FakeStream;

// `status` as a daemon sends it, with its detail.
grpc::Status FakeStatusToGrpc(const absl::Status& status);
grpc::Status FakeSessionUnknown();

// FakeDaemon's BlockService. KeepAlive is of the callback kind, so that a stream's end is told
// and not looked for. Thread-safe.
class FakeBlockService final
    : public v1::BlockService::WithCallbackMethod_KeepAlive<v1::BlockService::Service> {
 public:
  explicit FakeBlockService(const FakeDaemon::Options& options);
  ~FakeBlockService() override;

  grpc::Status OpenSession(grpc::ServerContext* context, const v1::OpenSessionRequest* request,
                           v1::OpenSessionResponse* response) override;
  grpc::ServerWriteReactor<v1::KeepAliveResponse>* KeepAlive(
      grpc::CallbackServerContext* context, const v1::KeepAliveRequest* request) override;
  grpc::Status CloseSession(grpc::ServerContext* context, const v1::CloseSessionRequest* request,
                            v1::CloseSessionResponse* response) override;
  grpc::Status Alloc(grpc::ServerContext* context, const v1::AllocRequest* request,
                     v1::AllocResponse* response) override;
  grpc::Status IncRef(grpc::ServerContext* context, const v1::IncRefRequest* request,
                      v1::IncRefResponse* response) override;
  grpc::Status DecRef(grpc::ServerContext* context, const v1::DecRefRequest* request,
                      v1::DecRefResponse* response) override;
  grpc::Status Publish(grpc::ServerContext* context, const v1::PublishRequest* request,
                       v1::PublishResponse* response) override;
  grpc::Status Lookup(grpc::ServerContext* context, const v1::LookupRequest* request,
                      v1::LookupResponse* response) override;
  grpc::Status Acquire(grpc::ServerContext* context, const v1::AcquireRequest* request,
                       v1::AcquireResponse* response) override;
  grpc::Status Evict(grpc::ServerContext* context, const v1::EvictRequest* request,
                     v1::EvictResponse* response) override;
  grpc::Status FillBlocks(grpc::ServerContext* context, const v1::FillBlocksRequest* request,
                          v1::FillBlocksResponse* response) override;
  grpc::Status CopyBlocks(grpc::ServerContext* context, const v1::CopyBlocksRequest* request,
                          v1::CopyBlocksResponse* response) override;
  grpc::Status ReadBlocks(grpc::ServerContext* context, const v1::ReadBlocksRequest* request,
                          grpc::ServerWriter<v1::ReadBlocksResponse>* writer) override;
  grpc::Status WriteBlocks(grpc::ServerContext* context,
                           grpc::ServerReader<v1::WriteBlocksRequest>* reader,
                           v1::WriteBlocksResponse* response) override;

 private:
  friend class FakeDaemon;
  friend class FakeStream;

  struct Session {
    std::map<uint32_t, uint32_t> references;  // By block.
    std::map<uint64_t, std::string> answers;  // By key.
  };

  // Counts the call, waits where it is to be held, and refuses it where it is to be refused.
  grpc::Status Begin(const std::string& method, uint64_t key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Loses the answer where it is to be lost.
  grpc::Status End(const std::string& method) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Session* Find(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  grpc::Status CheckHeld(const Session& session, const v1::Blocks& blocks, Reason reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes free blocks. Requires as many.
  void Take(Session& session, size_t count, v1::Blocks& blocks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(Session& session, uint32_t block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsFindable(uint32_t block) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The keys of a prefix's blocks; nothing where its parent is not findable.
  std::optional<std::vector<std::string>> KeysOf(const v1::Prefix& prefix) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The longest findable prefix of at most `max_blocks`; its last key into `last_key`.
  v1::Blocks Match(const v1::Prefix& prefix, size_t max_blocks, std::string& last_key) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Hold(Session& session, const v1::Blocks& blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndSession(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::span<std::byte> SideOf(const v1::BlockPiece& piece) const;
  void NotifyAll(const v1::Notice& notice) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndAll(const grpc::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(FakeStream* stream, const std::string& session);

  const PoolLayout layout_;
  const uint32_t max_blocks_per_call_;
  const std::function<void(v1::OpenSessionResponse&)> edit_opened_;
  int fd_ = -1;
  uint64_t size_bytes_ = 0;
  std::span<std::byte> memory_;

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Session> sessions_ ABSL_GUARDED_BY(mutex_);
  std::set<FakeStream*> streams_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> free_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> generations_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> counts_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<uint64_t>> keys_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> lost_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, grpc::Status> refused_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::string> to_hold_ ABSL_GUARDED_BY(mutex_);
  bool is_holding_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_attaching_ ABSL_GUARDED_BY(mutex_) = true;
  std::vector<uint64_t> requested_regions_ ABSL_GUARDED_BY(mutex_);
  v1::OpenSessionRequest last_open_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, uint32_t> findable_ ABSL_GUARDED_BY(mutex_);  // Blocks, by key.
  v1::Prefix last_prefix_ ABSL_GUARDED_BY(mutex_);
  uint32_t done_count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace kvpool::test
