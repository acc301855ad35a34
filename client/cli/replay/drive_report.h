#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/cli/replay/board.h"

namespace kvpool::replay {

// What a replay against a daemon came to. A value.
struct DriveReport {
  // How long the calls of a kind took.
  struct Calls {
    std::string name;
    uint64_t count = 0;
    std::chrono::nanoseconds p50{};  // 0 of none.
    std::chrono::nanoseconds p99{};
  };

  std::string trace_name{};
  std::string pool{};
  std::string policy{};  // The pool's.
  uint32_t num_blocks = 0;
  uint32_t workers = 0;
  uint64_t request_count = 0;
  uint64_t block_count = 0;  // Full blocks of all requests.
  std::chrono::nanoseconds duration{};
  uint64_t evicted_blocks = 0;

  // By CountResults.
  uint64_t refused_count = 0;  // Of the requests.
  uint64_t hit_blocks = 0;
  uint64_t published_blocks = 0;
  std::vector<Calls> calls{};

  // Fills in what results say.
  void CountResults(std::span<const RequestResult> results);

  std::string ToTable() const;
  std::string ToJson() const;
};

}  // namespace kvpool::replay
