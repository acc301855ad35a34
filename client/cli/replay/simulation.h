#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ledger/ledger.h"

namespace kvpool::replay {

// Simulation runs requests through a daemon's ledger alone, one after the other: each acquires its
// blocks, publishes those that were not found, and lets all go.
//
// `capacity` counts the blocks left cached after a request. While it runs, its own blocks come on
// top: the pool has room for the longest request too, so nothing is evicted under it. Then blocks
// are evicted down to the capacity, the request's own competing with the rest, its tail first.
class Simulation {
 public:
  struct Outcome {
    size_t hit_blocks = 0;      // Of the request's, the leading ones that were cached.
    size_t evicted_blocks = 0;  // After it.
  };

  // No request may have more than `longest_request` blocks. Requires that this and the capacity
  // are together from 1 to kMaxBlocks.
  Simulation(EvictionPolicyName policy, uint32_t capacity, uint32_t longest_request);

  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // Runs a request: the numbers of its blocks, from the first on, as the trace has them. With
  // `is_done` its caller says that it will not be gone on with. Requires that `now` does not fall.
  Outcome Run(std::span<const uint64_t> blocks, TimePoint now, bool is_done);

  uint32_t cached_count() const { return ledger_.counts().cached_blocks; }

 private:
  const uint32_t capacity_;
  Ledger ledger_;
  PrefixKeys keys_;  // Of the request that runs.
};

}  // namespace kvpool::replay
