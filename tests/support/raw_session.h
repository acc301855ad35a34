#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/raw_client.h"

namespace kvpool::test {

// A session, unattached until Attach, and never closed but by Close. The client must outlive it.
// Thread-safe but for Attach and Detach.
class RawSession {
 public:
  RawSession(RawClient& client, v1::OpenSessionResponse opened)
      : client_(client), opened_(std::move(opened)) {}

  // In the pool "p" and with a ttl of 10 min (machines are busy), unless the request says it.
  static absl::StatusOr<std::unique_ptr<RawSession>> Open(RawClient& client,
                                                          v1::OpenSessionRequest request);

  const std::string& id() const { return opened_.session_id(); }
  const v1::OpenSessionResponse& opened() const { return opened_; }
  RawClient& client() const { return client_; }

  // Waits until the session is attached to a stream; there is none where it fails.
  absl::Status Attach();
  RawClient::Stream& stream() { return *stream_; }
  // Breaks the stream.
  void Detach() { stream_.reset(); }

  absl::StatusOr<v1::Blocks> Alloc(uint32_t count);
  // Waits for room that long.
  absl::StatusOr<v1::Blocks> AllocWaiting(uint32_t count, std::chrono::milliseconds wait);
  absl::StatusOr<v1::Blocks> AllocUpTo(uint32_t count);
  // What may be asked beside a count; the session id is filled in.
  absl::StatusOr<v1::AllocResponse> Alloc(
      v1::AllocRequest request, std::chrono::microseconds deadline = RawClient::kPatience);
  absl::Status IncRef(const v1::Blocks& blocks, uint64_t key = 0);
  absl::StatusOr<v1::DecRefResponse> DecRef(const v1::Blocks& blocks, uint64_t key = 0);
  absl::Status Fill(const v1::Blocks& blocks, v1::Fill fill);
  // Source i of `sources` to destination i.
  absl::Status Copy(const v1::Blocks& sources, const v1::Blocks& destinations);
  absl::StatusOr<std::vector<v1::BlockPiece>> Read(const v1::Blocks& blocks);
  // One piece.
  absl::StatusOr<uint64_t> Write(uint32_t block_id, uint32_t layer, v1::Side side,
                                 uint64_t offset_bytes, std::string data);
  absl::Status Close() { return client_.CloseSession(id()); }

 private:
  RawClient& client_;
  const v1::OpenSessionResponse opened_;
  std::unique_ptr<RawClient::Stream> stream_;
};

}  // namespace kvpool::test
