#pragma once

#include "core/ledger/eviction/block_note.h"
#include "core/ledger/eviction/candidates.h"
#include "core/ledger/eviction/eviction_policy.h"
#include "core/ledger/eviction/use_stamp.h"

namespace kvpool {

// LeafLru evicts the candidate that was used longest ago. As candidates are leaves, a chain goes
// tail first. It remembers nothing of evicted blocks, and hints mean nothing to it: it is what
// other policies are measured against.
class LeafLru : public EvictionPolicy {
 public:
  LeafLru() = default;

  void AddBlock(BlockId block, TenantSlot tenant, uint64_t prefix, TimePoint now) override;
  void UseBlock(BlockId block, TimePoint now) override;
  void AddCandidate(BlockId block) override;
  void RemoveCandidate(BlockId block) override;
  void AddHeldLeaf(BlockId block) override;
  void RemoveHeldLeaf(BlockId block) override;
  void HintDone(BlockId block) override;
  void ForgetEvicted(BlockId block, TimePoint now) override;
  void ForgetRemoved(BlockId block, TimePoint now) override;
  void CountRequest(TimePoint now) override;
  void Prefetch(BlockId block) const override { notes_.Prefetch(ToIndex(block)); }
  std::optional<BlockId> Choose(TenantSlot tenant, TimePoint now) override;
  std::optional<BlockId> ChooseHeldLeaf(TenantSlot tenant) const override;

 private:
  BlockNotes notes_;
  Candidates candidates_{notes_};
  UseClock clock_;
};

}  // namespace kvpool
