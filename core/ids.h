#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kvpool {

// Monotonic time. Passed into core, which never reads a clock.
using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

// A block's index in its pool: 0 <= id < num_blocks.
enum class BlockId : uint32_t {};

// Rises each time a block leaves FREE. Never 0; 0 stands for "not given".
enum class Generation : uint64_t {};

// A process that the server has met. Made by the server, never reused.
enum class ProcessId : uint64_t {};

// A call that could not be answered at once: it waits for room, a fill or its turn.
// Unique in its ledger. 0 stands for none.
enum class PendingId : uint64_t {};

// A session's id: 128 random bits, made by the server. The whole id is its owner's secret.
struct SessionId {
  std::array<uint8_t, 16> bytes{};

  auto operator<=>(const SessionId&) const = default;
  template <typename H>
  friend H AbslHashValue(H state, const SessionId& id) {
    return H::combine(std::move(state), id.bytes);
  }

  // 32 lower-case hex digits.
  std::string ToString() const;
  // The first eight of them: what listings and logs may show.
  std::string Short() const;
  // INVALID_ARGUMENT unless `text` is 32 lower-case hex digits.
  static absl::StatusOr<SessionId> Parse(absl::string_view text);
};

// A block as a caller names it: its id and, unless `generation` is 0, the generation at which
// the id is meant.
struct BlockRef {
  BlockId block{};
  Generation generation{};

  bool operator==(const BlockRef&) const = default;
  template <typename H>
  friend H AbslHashValue(H state, const BlockRef& ref) {
    return H::combine(std::move(state), ref.block, ref.generation);
  }
};

constexpr uint32_t ToIndex(BlockId block) { return static_cast<uint32_t>(block); }

}  // namespace kvpool
