#include "tests/unit/replay/plain_cache.h"

#include <optional>

#include "core/check.h"
#include "core/ledger/slots.h"

namespace kvpool::test {
namespace {

constexpr BlockId kRoot{UINT32_MAX};
constexpr TenantSlot kTenant{0};

// A number for a prefix that is made of another and a block: mixed well, the same everywhere.
uint64_t ChainPrefix(uint64_t parent, uint64_t name) {
  uint64_t mixed = parent ^ (name + 0x9E3779B97F4A7C15U);
  mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9U;
  mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBU;
  return mixed ^ mixed >> 31;
}

}  // namespace

PlainCache::PlainCache(EvictionPolicy& policy, size_t capacity)
    : policy_(policy), capacity_(capacity) {}

PlainCache::Outcome PlainCache::Run(std::span<const uint64_t> blocks, TimePoint now, bool is_done) {
  if (blocks.empty()) return {};
  policy_.CountRequest(now);
  held_.clear();
  for (const uint64_t name : blocks) {
    const BlockId block = Find(held_.empty() ? kRoot : held_.back(), name);
    if (block == kRoot) break;
    held_.push_back(block);
  }
  Outcome outcome{.hit_blocks = held_.size()};
  // Of the blocks found the last alone can have been a candidate. It is held now.
  if (!held_.empty() && nodes_[ToIndex(held_.back())].child_count == 0) {
    policy_.RemoveCandidate(held_.back());
  }
  for (const BlockId block : held_) policy_.UseBlock(block, now);
  for (const uint64_t name : blocks.subspan(held_.size())) {
    held_.push_back(Insert(held_.empty() ? kRoot : held_.back(), name, now));
  }
  if (is_done) {
    for (const BlockId block : held_) policy_.HintDone(block);
  }
  if (nodes_[ToIndex(held_.back())].child_count == 0) policy_.AddCandidate(held_.back());
  while (cached_count() > capacity_) {
    const std::optional<BlockId> victim = policy_.Choose(kNoTenant, now);
    KVPOOL_CHECK(victim.has_value());
    Evict(*victim, now);
    ++outcome.evicted_blocks;
  }
  return outcome;
}

BlockId PlainCache::Find(BlockId parent, uint64_t name) const {
  const auto found = by_name_.find({parent, name});
  return found == by_name_.end() ? kRoot : found->second;
}

BlockId PlainCache::Insert(BlockId parent, uint64_t name, TimePoint now) {
  if (free_.empty()) {
    free_.push_back(BlockId{static_cast<uint32_t>(nodes_.size())});
    nodes_.emplace_back();
  }
  const BlockId block = free_.back();
  free_.pop_back();
  uint64_t parent_prefix = 0;
  if (parent != kRoot) {
    parent_prefix = nodes_[ToIndex(parent)].prefix;
    ++nodes_[ToIndex(parent)].child_count;
  }
  const uint64_t prefix = ChainPrefix(parent_prefix, name);
  nodes_[ToIndex(block)] = {.name = name, .prefix = prefix, .parent = parent, .child_count = 0};
  const bool is_new = by_name_.emplace(std::pair(parent, name), block).second;
  KVPOOL_CHECK(is_new);
  policy_.AddBlock(block, kTenant, prefix, now);
  return block;
}

void PlainCache::Evict(BlockId block, TimePoint now) {
  const Node node = nodes_[ToIndex(block)];
  KVPOOL_CHECK(node.child_count == 0);
  policy_.ForgetEvicted(block, now);
  by_name_.erase({node.parent, node.name});
  free_.push_back(block);
  if (node.parent == kRoot) return;
  if (--nodes_[ToIndex(node.parent)].child_count == 0) policy_.AddCandidate(node.parent);
}

}  // namespace kvpool::test
