#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "core/ids.h"
#include "core/ledger/eviction/eviction_policy.h"

namespace kvpool::replay {

// CacheSimulation runs requests against an eviction policy, one after the other, as a pool of one
// tenant would: a prefix tree of cached blocks, and nothing else.
//
// `capacity` counts the blocks left cached after a request. While it runs, its own blocks come on
// top: a pool of the capacity and the longest request never evicts under it. Then blocks go until
// no more than the capacity are left, the request's own competing with the rest, its tail first.
class CacheSimulation {
 public:
  struct Outcome {
    size_t hit_blocks = 0;      // Of the request's, the leading ones that were cached.
    size_t evicted_blocks = 0;  // After it.
  };

  // `policy` must be new, and outlive it.
  CacheSimulation(EvictionPolicy& policy, size_t capacity);

  CacheSimulation(const CacheSimulation&) = delete;
  CacheSimulation& operator=(const CacheSimulation&) = delete;

  // Runs a request: the blocks from the first on, as the trace names them. With `is_done` its
  // caller says that it will not be continued. Requires that `now` does not fall.
  Outcome Run(std::span<const uint64_t> blocks, TimePoint now, bool is_done);

  size_t cached_count() const { return by_name_.size(); }

 private:
  struct Node {
    uint64_t name = 0;  // As the trace has it.
    uint64_t prefix = 0;
    BlockId parent{};
    uint32_t child_count = 0;
  };

  BlockId Find(BlockId parent, uint64_t name) const;
  BlockId Insert(BlockId parent, uint64_t name, TimePoint now);
  void Evict(BlockId block, TimePoint now);

  EvictionPolicy& policy_;
  const size_t capacity_;
  std::vector<Node> nodes_;  // By block.
  std::vector<BlockId> free_;
  absl::flat_hash_map<std::pair<BlockId, uint64_t>, BlockId> by_name_;  // Of a parent's children.
  std::vector<BlockId> held_;                                           // By the request, in order.
};

}  // namespace kvpool::replay
