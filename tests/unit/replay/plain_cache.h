#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "core/ids.h"
#include "core/ledger/eviction/eviction_policy.h"

namespace kvpool::test {

// PlainCache runs requests as Simulation does, against a policy and a prefix tree of cached blocks
// and nothing else: the model that Simulation is compared with.
class PlainCache {
 public:
  struct Outcome {
    size_t hit_blocks = 0;      // Of the request's, the leading ones that were cached.
    size_t evicted_blocks = 0;  // After it.
  };

  // `policy` must be new, and outlive it.
  PlainCache(EvictionPolicy& policy, size_t capacity);

  PlainCache(const PlainCache&) = delete;
  PlainCache& operator=(const PlainCache&) = delete;

  // As Simulation::Run.
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

}  // namespace kvpool::test
