#pragma once

#include <cstdint>
#include <vector>

#include "client/cli/replay/trace.h"

namespace kvpool::replay {

// Optimum tells how many blocks of a trace could be hits at best, had one known the future: after
// each request the blocks that are used again last, or never, go, be they the request's own. As a
// block is never used again after the blocks that it continues, they are always leaves.
//
// It keeps 8 bytes for each block of each request.
class Optimum {
 public:
  explicit Optimum(const Trace& trace);

  // The hits where `capacity` blocks are left cached after each request.
  uint64_t CountHits(size_t capacity) const;

  // How many different blocks the trace has: what an unlimited cache would hold.
  size_t unique_count() const { return unique_count_; }

 private:
  struct Use {
    uint32_t prefix = 0;        // Numbered by first use, so continuations have higher numbers.
    uint32_t next_request = 0;  // The next that uses it, or kNever.
  };
  static constexpr uint32_t kNever = UINT32_MAX;

  std::vector<Use> uses_;          // Of all requests, one after the other.
  std::vector<size_t> first_use_;  // Of each request, and one past the last.
  size_t unique_count_ = 0;
};

}  // namespace kvpool::replay
