#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvpool::replay {

// What became of one request. A call that was not made took -1.
struct RequestResult {
  enum class State : uint8_t {
    kNotRun,
    kServed,
    kRefused,  // RESOURCE_EXHAUSTED: the daemon had no room for its blocks.
  };

  int64_t acquire_ns = -1;
  int64_t publish_ns = -1;
  int64_t release_ns = -1;
  uint32_t hit_blocks = 0;
  uint32_t published_blocks = 0;  // That became findable by it.
  State state = State::kNotRun;
};

// Board is memory that a process shares with the children it forks later: who takes which request,
// when they begin, and what became of each. A worker is known by its number.
//
// The parent makes it, and reads results when the workers have ended. Each worker writes the
// results of the requests that it took. Thread-safe, and so between processes.
class Board {
 public:
  static constexpr size_t kMaxMessageBytes = 500;

  // RESOURCE_EXHAUSTED where there is no memory for it: some 40 bytes a request.
  static absl::StatusOr<Board> Create(size_t request_count, uint32_t worker_count);

  Board(Board&& other) noexcept;
  Board& operator=(Board&&) = delete;
  ~Board();

  // The next request that nobody has taken. Absent: there is none, or a worker has failed.
  std::optional<size_t> TakeRequest();
  bool has_failed() const { return header_->has_failed; }

  // When the requests begin, by steady_clock, which all processes of a machine share.
  void SetBegin(std::chrono::steady_clock::time_point begin);
  std::chrono::steady_clock::time_point begin() const;

  // The worker cannot go on: nobody takes a request any more. A long message is cut.
  void Fail(uint32_t worker, const absl::Status& status);
  // OK where it has not failed.
  absl::Status StatusOf(uint32_t worker) const;

  std::span<RequestResult> results() { return {results_, header_->request_count}; }
  std::span<const RequestResult> results() const { return {results_, header_->request_count}; }

 private:
  struct Header {
    size_t request_count = 0;
    std::atomic<size_t> next_request = 0;
    std::atomic<bool> has_failed = false;
    std::atomic<int64_t> begin_ns = 0;
  };
  struct Failure {
    int code = 0;
    size_t message_bytes = 0;
    char message[kMaxMessageBytes] = {};
  };
  static_assert(std::atomic<size_t>::is_always_lock_free);

  Board(void* memory, size_t size_bytes, size_t request_count, uint32_t worker_count);

  void* memory_;
  size_t size_bytes_;
  Header* header_;
  Failure* failures_;       // By worker.
  RequestResult* results_;  // By request.
};

}  // namespace kvpool::replay
