#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/ledger/eviction/eviction_policy.h"

namespace kvpool::test {

// A block as the simplest policies know it.
struct ModelBlock {
  TenantSlot tenant{};
  uint64_t prefix = 0;
  int64_t use_ms = 0;
  uint64_t use_number = 0;  // Rises with each use of any block.
  bool is_candidate = false;
  bool is_held_leaf = false;
  bool is_done = false;
  bool is_seen_again = false;
  size_t reached_bin = 0;  // Of its use's age, as far as it is counted.
};

// What the models of the policies have in common: all blocks in a map, looked through for
// everything.
class PolicyModel : public EvictionPolicy {
 public:
  void AddBlock(BlockId block, TenantSlot tenant, uint64_t prefix, TimePoint now) override;
  void UseBlock(BlockId block, TimePoint now) override;
  void AddCandidate(BlockId block) override { blocks_.at(block).is_candidate = true; }
  void RemoveCandidate(BlockId block) override { blocks_.at(block).is_candidate = false; }
  void AddHeldLeaf(BlockId block) override { blocks_.at(block).is_held_leaf = true; }
  void RemoveHeldLeaf(BlockId block) override { blocks_.at(block).is_held_leaf = false; }
  void HintDone(BlockId block) override { blocks_.at(block).is_done = true; }
  void ForgetEvicted(BlockId block, TimePoint now) override;
  void ForgetRemoved(BlockId block, TimePoint now) override;
  void CountRequest(TimePoint now) override { Advance(now); }
  std::optional<BlockId> ChooseHeldLeaf(TenantSlot tenant) const override;

  const std::map<BlockId, ModelBlock>& blocks() const { return blocks_; }

 protected:
  void Advance(TimePoint now);
  // The candidates, of that tenant or of all, by `use_number`.
  std::map<uint64_t, BlockId> CandidatesByUse(TenantSlot tenant) const;

  std::map<BlockId, ModelBlock> blocks_;
  int64_t now_ms_ = 0;
  uint64_t use_count_ = 0;
};

// Of all candidates the one used longest ago.
class LeafLruModel : public PolicyModel {
 public:
  std::optional<BlockId> Choose(TenantSlot tenant, TimePoint now) override;
};

}  // namespace kvpool::test
