#include "tests/support/raw_session.h"

#include <unistd.h>

#include <optional>

#include "core/status_macros.h"

namespace kvpool::test {

absl::StatusOr<std::unique_ptr<RawSession>> RawSession::Open(RawClient& client,
                                                             v1::OpenSessionRequest request) {
  if (request.pool().empty()) request.set_pool("p");
  if (request.pid() == 0) request.set_pid(getpid());
  if (!request.has_ttl()) request.mutable_ttl()->set_seconds(600);
  KVPOOL_ASSIGN_OR_RETURN(v1::OpenSessionResponse opened, client.OpenSession(request));
  return std::make_unique<RawSession>(client, std::move(opened));
}

absl::Status RawSession::Attach() {
  stream_ = client_.KeepAlive(id());
  const std::optional<v1::Notice> first = stream_->Next();
  if (!first.has_value()) {
    const absl::Status end = stream_->End();
    Detach();
    return end;
  }
  if (first->kind() == v1::Notice::KIND_ATTACHED) return absl::OkStatus();
  return absl::InternalError("the first notice is not ATTACHED");
}

absl::StatusOr<v1::AllocResponse> RawSession::Alloc(v1::AllocRequest request,
                                                    std::chrono::microseconds deadline) {
  request.set_session_id(id());
  return client_.Alloc(request, deadline);
}

absl::StatusOr<v1::Blocks> RawSession::Alloc(uint32_t count) {
  v1::AllocRequest request;
  request.set_count(count);
  KVPOOL_ASSIGN_OR_RETURN(v1::AllocResponse response, Alloc(std::move(request)));
  return std::move(*response.mutable_blocks());
}

absl::StatusOr<v1::Blocks> RawSession::AllocWaiting(uint32_t count,
                                                    std::chrono::milliseconds wait) {
  v1::AllocRequest request;
  request.set_count(count);
  request.mutable_wait()->set_seconds(wait.count() / 1000);
  request.mutable_wait()->set_nanos(static_cast<int32_t>(wait.count() % 1000 * 1'000'000));
  KVPOOL_ASSIGN_OR_RETURN(v1::AllocResponse response, Alloc(std::move(request)));
  return std::move(*response.mutable_blocks());
}

absl::StatusOr<v1::Blocks> RawSession::AllocUpTo(uint32_t count) {
  v1::AllocRequest request;
  request.set_count(count);
  request.set_allow_partial(true);
  KVPOOL_ASSIGN_OR_RETURN(v1::AllocResponse response, Alloc(std::move(request)));
  return std::move(*response.mutable_blocks());
}

absl::Status RawSession::IncRef(const v1::Blocks& blocks, uint64_t key) {
  v1::IncRefRequest request;
  request.set_session_id(id());
  *request.mutable_blocks() = blocks;
  request.set_idempotency_key(key);
  return client_.IncRef(request);
}

absl::StatusOr<v1::DecRefResponse> RawSession::DecRef(const v1::Blocks& blocks, uint64_t key) {
  v1::DecRefRequest request;
  request.set_session_id(id());
  *request.mutable_blocks() = blocks;
  request.set_idempotency_key(key);
  return client_.DecRef(request);
}

absl::Status RawSession::Fill(const v1::Blocks& blocks, v1::Fill fill) {
  v1::FillBlocksRequest request;
  request.set_session_id(id());
  *request.mutable_blocks() = blocks;
  request.set_fill(fill);
  return client_.FillBlocks(request);
}

absl::Status RawSession::Copy(const v1::Blocks& sources, const v1::Blocks& destinations) {
  v1::CopyBlocksRequest request;
  request.set_session_id(id());
  *request.mutable_sources() = sources;
  *request.mutable_destinations() = destinations;
  return client_.CopyBlocks(request);
}

absl::StatusOr<std::vector<v1::BlockPiece>> RawSession::Read(const v1::Blocks& blocks) {
  v1::ReadBlocksRequest request;
  request.set_session_id(id());
  *request.mutable_blocks() = blocks;
  return client_.ReadBlocks(request);
}

absl::StatusOr<uint64_t> RawSession::Write(uint32_t block_id, uint32_t layer, v1::Side side,
                                           uint64_t offset_bytes, std::string data) {
  v1::WriteBlocksRequest request;
  request.set_session_id(id());
  v1::BlockPiece& piece = *request.mutable_piece();
  piece.set_block_id(block_id);
  piece.set_layer(layer);
  piece.set_side(side);
  piece.set_offset_bytes(offset_bytes);
  piece.set_data(std::move(data));
  return client_.WriteBlocks({request});
}

}  // namespace kvpool::test
