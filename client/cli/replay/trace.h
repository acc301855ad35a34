#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kvpool::replay {

// What differs between the public formats of request traces.
struct TraceFormat {
  uint32_t block_tokens = 0;                   // The tokens that one of `hash_ids` stands for.
  std::chrono::milliseconds timestamp_unit{};  // Of `timestamp`.
};
// Mooncake's: blocks of 512 tokens, times in milliseconds.
inline constexpr TraceFormat kMooncakeFormat{512, std::chrono::milliseconds(1)};
// The variant with blocks of 16 tokens, whose times are in seconds, with decimals.
inline constexpr TraceFormat kSmallBlockFormat{16, std::chrono::seconds(1)};

// A request of a trace: a prompt, as the blocks it fills.
struct TraceRequest {
  std::chrono::milliseconds time{};  // Since the trace's zero.
  uint64_t input_tokens = 0;
  uint64_t output_tokens = 0;
  size_t first_block = 0;  // In Trace::blocks.
  size_t block_count = 0;
};

// When a request of that time comes, where its trace is replayed `speed` times as fast: after a
// century at the latest, which no clock's count passes. Requires speed > 0.
std::chrono::nanoseconds TimeAtSpeed(std::chrono::milliseconds time, double speed);

// A trace of requests, in the order of their times, the whole of it in memory: 8 bytes a block.
//
// A block is named by a number; as prefixes are chained, two blocks are the same only where all
// before them are too. Only full blocks are kept: what a prompt's end fills in part is not cached.
class Trace {
 public:
  // The most that a trace may have: 2 GiB of blocks.
  static constexpr size_t kMaxBlocks = size_t{1} << 28;
  // The most tokens that a request may have, and the latest time: 31 years.
  static constexpr uint64_t kMaxTokens = uint64_t{1} << 32;
  static constexpr std::chrono::milliseconds kMaxTime{1'000'000'000'000};

  // Reads a file of JSON lines, plain or xz-compressed: objects with `timestamp`, `input_length`,
  // `output_length` and `hash_ids`, the latter at least as many as the prompt has full blocks.
  // Other fields, further ids and empty lines are left aside.
  //
  // NOT_FOUND where the file cannot be opened; INVALID_ARGUMENT, naming file and line, where it is
  // not that: no such object, a value out of range, a time below the one before, too long.
  static absl::StatusOr<Trace> Read(const std::string& path, const TraceFormat& format);

  // Adds a request. Requires that its time is not below the last one's.
  void Add(TraceRequest request, std::span<const uint64_t> blocks);

  const std::vector<TraceRequest>& requests() const { return requests_; }
  std::span<const uint64_t> blocks(const TraceRequest& request) const {
    return std::span(blocks_).subspan(request.first_block, request.block_count);
  }
  size_t block_count() const { return blocks_.size(); }

 private:
  std::vector<TraceRequest> requests_;
  std::vector<uint64_t> blocks_;  // Of all requests, one after the other.
};

}  // namespace kvpool::replay
