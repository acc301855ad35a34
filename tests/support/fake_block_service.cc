#include "tests/support/fake_block_service.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/error.h"
#include "kvpool/internal/status.pb.h"
#include "proto/convert/layout_convert.h"

namespace kvpool::test {

grpc::Status FakeStatusToGrpc(const absl::Status& status) {
  const ErrorDetail detail = GetErrorDetail(status);
  v1::ErrorDetail proto;
  proto.set_reason(static_cast<v1::ErrorDetail::Reason>(detail.reason));
  proto.set_index(detail.index);
  proto.set_block_id(detail.block_id);
  proto.set_available(detail.available);
  internal::Status rich;
  rich.set_code(static_cast<int>(status.code()));
  rich.set_message(std::string(status.message()));
  rich.add_details()->PackFrom(proto);
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message()),
          detail == ErrorDetail{} ? "" : rich.SerializeAsString()};
}

grpc::Status FakeSessionUnknown() {
  return FakeStatusToGrpc(MakeError(absl::StatusCode::kNotFound,
                                    {.reason = Reason::kSessionUnknown}, "no such session"));
}

namespace {

grpc::Status Fail(absl::StatusCode code, const ErrorDetail& detail, absl::string_view message) {
  return FakeStatusToGrpc(MakeError(code, detail, message));
}

PoolSpec SmallSpec() {
  PoolSpec spec;
  spec.name = "p";
  spec.block_size = 4;
  spec.num_layers = 3;
  spec.num_kv_heads = 2;
  spec.head_dim = 8;
  spec.dtype = "turbo4k_turbo3v";
  spec.num_blocks = 8;
  return spec;
}

}  // namespace

// One KeepAlive stream. Deletes itself when done.
class FakeStream final : public grpc::ServerWriteReactor<v1::KeepAliveResponse> {
 public:
  FakeStream(FakeBlockService& service, std::string session)
      : service_(service), session_(std::move(session)) {}

  void Send(const v1::Notice& notice) {
    const MutexLock lock(mutex_);
    if (end_.has_value()) return;
    queue_.emplace_back().mutable_notice()->CopyFrom(notice);
    if (queue_.size() == 1) StartWrite(&queue_.front());
  }

  void End(const grpc::Status& status) {
    const MutexLock lock(mutex_);
    if (end_.has_value()) return;
    end_ = status;
    if (queue_.empty()) Finish(status);
  }

  const std::string& session() const { return session_; }

  void OnWriteDone(bool ok) override {
    const MutexLock lock(mutex_);
    queue_.pop_front();
    if (!ok && !end_.has_value()) end_ = grpc::Status::CANCELLED;
    if (!ok) queue_.clear();
    if (!queue_.empty()) {
      StartWrite(&queue_.front());
    } else if (end_.has_value()) {
      Finish(*end_);
    }
  }
  void OnCancel() override { End(grpc::Status::CANCELLED); }
  void OnDone() override {
    service_.Forget(this, session_);
    delete this;
  }

 private:
  FakeBlockService& service_;
  const std::string session_;
  Mutex mutex_;
  std::deque<v1::KeepAliveResponse> queue_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::Status> end_ ABSL_GUARDED_BY(mutex_);
};

FakeBlockService::FakeBlockService(const FakeDaemon::Options& options)
    : layout_(PlanPool(options.spec.name.empty() ? SmallSpec() : options.spec).value()),
      max_blocks_per_call_(options.max_blocks_per_call),
      edit_opened_(options.edit_opened),
      size_bytes_(layout_.shard_bytes + options.extra_bytes),
      generations_(layout_.num_blocks, 0),
      counts_(layout_.num_blocks, 0) {
  for (uint32_t block = layout_.num_blocks; block > 0; --block) free_.push_back(block - 1);
  fd_ = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  KVPOOL_CHECK(fd_ >= 0 && ftruncate(fd_, static_cast<off_t>(size_bytes_)) == 0);
  if (options.is_sealed) {
    KVPOOL_CHECK(fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
  }
  void* data = mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  KVPOOL_CHECK(data != MAP_FAILED);
  memory_ = {static_cast<std::byte*>(data), size_bytes_};
}

FakeBlockService::~FakeBlockService() {
  munmap(memory_.data(), memory_.size());
  close(fd_);
}

grpc::Status FakeBlockService::Begin(const std::string& method, uint64_t key) {
  keys_[method].push_back(key);
  changed_.notify_all();
  if (to_hold_ == method) {
    to_hold_.reset();
    is_holding_ = true;
    changed_.notify_all();
    while (is_holding_) changed_.wait(mutex_);
  }
  const auto refused = refused_.find(method);
  if (refused == refused_.end()) return grpc::Status::OK;
  return refused_.extract(refused).mapped();
}

grpc::Status FakeBlockService::End(const std::string& method) {
  if (lost_[method] == 0) return grpc::Status::OK;
  --lost_[method];
  return {grpc::StatusCode::UNAVAILABLE, "the answer is lost"};
}

FakeBlockService::Session* FakeBlockService::Find(const std::string& id) {
  const auto session = sessions_.find(id);
  return session == sessions_.end() ? nullptr : &session->second;
}

grpc::Status FakeBlockService::CheckHeld(const Session& session, const v1::Blocks& blocks,
                                         Reason reason) {
  std::map<uint32_t, uint32_t> left = session.references;
  for (int i = 0; i < blocks.block_ids_size(); ++i) {
    const uint32_t block = blocks.block_ids(i);
    const bool is_stale =
        block >= layout_.num_blocks ||
        (blocks.generations_size() > 0 && blocks.generations(i) != generations_[block]);
    if (is_stale || left[block]-- == 0) {
      return Fail(absl::StatusCode::kFailedPrecondition,
                  {.reason = reason, .index = static_cast<uint32_t>(i), .block_id = block},
                  "not held");
    }
  }
  return grpc::Status::OK;
}

void FakeBlockService::Take(Session& session, size_t count, v1::Blocks& blocks) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t block = free_.back();
    free_.pop_back();
    counts_[block] = 1;
    session.references[block] = 1;
    blocks.add_block_ids(block);
    blocks.add_generations(++generations_[block]);
  }
}

void FakeBlockService::Drop(Session& session, uint32_t block) {
  if (--session.references[block] == 0) session.references.erase(block);
  if (--counts_[block] == 0 && !IsFindable(block)) free_.push_back(block);
}

void FakeBlockService::EndSession(const std::string& id) {
  const auto session = sessions_.find(id);
  if (session == sessions_.end()) return;
  while (!session->second.references.empty()) {
    Drop(session->second, session->second.references.begin()->first);
  }
  sessions_.erase(session);
  changed_.notify_all();
}

void FakeBlockService::NotifyAll(const v1::Notice& notice) {
  for (FakeStream* stream : streams_) stream->Send(notice);
}

void FakeBlockService::EndAll(const grpc::Status& status) {
  for (FakeStream* stream : streams_) stream->End(status);
}

void FakeBlockService::Forget(FakeStream* stream, const std::string& session) {
  const MutexLock lock(mutex_);
  streams_.erase(stream);
  EndSession(session);
}

grpc::Status FakeBlockService::OpenSession(grpc::ServerContext* /*context*/,
                                           const v1::OpenSessionRequest* request,
                                           v1::OpenSessionResponse* response) {
  const MutexLock lock(mutex_);
  last_open_ = *request;
  if (const grpc::Status status = Begin("OpenSession", 0); !status.ok()) return status;
  if (request->pool() != layout_.spec.name) {
    return Fail(absl::StatusCode::kNotFound, {}, absl::StrCat("no pool ", request->pool()));
  }
  // No daemon gives an id that an earlier one gave.
  static std::atomic<uint64_t> next_session{1};
  SessionId id;
  const uint64_t number = next_session++;
  std::memcpy(id.bytes.data(), &number, sizeof(number));
  sessions_[id.ToString()];
  response->set_session_id(id.ToString());
  *response->mutable_layout() = LayoutToProto(layout_);
  // Backwards: a client looks for a shard, not for a place in the list.
  for (uint32_t shard = layout_.num_shards(); shard-- > 0;) {
    v1::MemoryRegion& region = *response->add_regions();
    region.set_shard(shard);
    region.set_region_id(FakeDaemon::kFirstRegionId + shard);
    region.set_size_bytes(layout_.shard_bytes);
    region.mutable_shared_memory();
  }
  response->mutable_limits()->set_max_blocks_per_call(max_blocks_per_call_);
  response->mutable_limits()->mutable_max_wait()->set_seconds(60);
  if (edit_opened_) edit_opened_(*response);
  return End("OpenSession");
}

grpc::ServerWriteReactor<v1::KeepAliveResponse>* FakeBlockService::KeepAlive(
    grpc::CallbackServerContext* /*context*/, const v1::KeepAliveRequest* request) {
  auto* stream = new FakeStream(*this, request->session_id());
  const MutexLock lock(mutex_);
  streams_.insert(stream);
  grpc::Status status = Begin("KeepAlive", 0);
  if (status.ok() && Find(request->session_id()) == nullptr) status = FakeSessionUnknown();
  if (!status.ok()) {
    stream->End(status);
  } else if (is_attaching_) {
    v1::Notice attached;
    attached.set_kind(v1::Notice::KIND_ATTACHED);
    stream->Send(attached);
  }
  return stream;
}

grpc::Status FakeBlockService::CloseSession(grpc::ServerContext* /*context*/,
                                            const v1::CloseSessionRequest* request,
                                            v1::CloseSessionResponse* /*response*/) {
  const MutexLock lock(mutex_);
  if (const grpc::Status status = Begin("CloseSession", 0); !status.ok()) return status;
  if (Find(request->session_id()) == nullptr) return FakeSessionUnknown();
  EndSession(request->session_id());
  for (FakeStream* stream : streams_) {
    if (stream->session() == request->session_id()) stream->End(grpc::Status::OK);
  }
  return End("CloseSession");
}

grpc::Status FakeBlockService::Alloc(grpc::ServerContext* /*context*/,
                                     const v1::AllocRequest* request, v1::AllocResponse* response) {
  const MutexLock lock(mutex_);
  if (const grpc::Status status = Begin("Alloc", request->idempotency_key()); !status.ok()) {
    return status;
  }
  Session* const session = Find(request->session_id());
  if (session == nullptr) return FakeSessionUnknown();
  const auto answer = session->answers.find(request->idempotency_key());
  if (answer != session->answers.end()) {
    KVPOOL_CHECK(response->ParseFromString(answer->second));
    return grpc::Status::OK;
  }
  if (const grpc::Status held = CheckHeld(*session, request->release(), Reason::kNotHeld);
      !held.ok()) {
    return held;
  }
  const auto released = static_cast<size_t>(request->release().block_ids_size());
  const size_t available = free_.size() + released;
  if (request->count() > available && !request->allow_partial()) {
    return Fail(absl::StatusCode::kResourceExhausted,
                {.reason = Reason::kPoolFull, .available = static_cast<uint32_t>(available)},
                "the pool is full");
  }
  for (const uint32_t block : request->release().block_ids()) Drop(*session, block);
  Take(*session, std::min<size_t>(request->count(), available), *response->mutable_blocks());
  session->answers[request->idempotency_key()] = response->SerializeAsString();
  return End("Alloc");
}

grpc::Status FakeBlockService::IncRef(grpc::ServerContext* /*context*/,
                                      const v1::IncRefRequest* request,
                                      v1::IncRefResponse* /*response*/) {
  const MutexLock lock(mutex_);
  if (const grpc::Status status = Begin("IncRef", request->idempotency_key()); !status.ok()) {
    return status;
  }
  Session* const session = Find(request->session_id());
  if (session == nullptr) return FakeSessionUnknown();
  if (!session->answers.emplace(request->idempotency_key(), "").second) return grpc::Status::OK;
  const v1::Blocks& blocks = request->blocks();
  for (int i = 0; i < blocks.block_ids_size(); ++i) {
    if (counts_[blocks.block_ids(i)] > 0 &&
        generations_[blocks.block_ids(i)] == blocks.generations(i)) {
      continue;
    }
    return Fail(absl::StatusCode::kFailedPrecondition,
                {.reason = Reason::kStaleBlock,
                 .index = static_cast<uint32_t>(i),
                 .block_id = blocks.block_ids(i)},
                "stale");
  }
  for (const uint32_t block : blocks.block_ids()) {
    ++counts_[block];
    ++session->references[block];
  }
  return End("IncRef");
}

grpc::Status FakeBlockService::DecRef(grpc::ServerContext* /*context*/,
                                      const v1::DecRefRequest* request,
                                      v1::DecRefResponse* /*response*/) {
  const MutexLock lock(mutex_);
  if (const grpc::Status status = Begin("DecRef", request->idempotency_key()); !status.ok()) {
    return status;
  }
  Session* const session = Find(request->session_id());
  if (session == nullptr) return FakeSessionUnknown();
  if (session->answers.contains(request->idempotency_key())) return grpc::Status::OK;
  if (const grpc::Status held = CheckHeld(*session, request->blocks(), Reason::kNotHeld);
      !held.ok()) {
    return held;
  }
  session->answers.emplace(request->idempotency_key(), "");
  if (request->done()) done_count_ += static_cast<uint32_t>(request->blocks().block_ids_size());
  for (const uint32_t block : request->blocks().block_ids()) Drop(*session, block);
  changed_.notify_all();
  return End("DecRef");
}

}  // namespace kvpool::test
