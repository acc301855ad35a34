#pragma once

#include <array>
#include <cstdint>

#include "core/ledger/eviction/block_note.h"
#include "core/ledger/eviction/candidates.h"
#include "core/ledger/eviction/eviction_policy.h"
#include "core/ledger/eviction/ghost_table.h"
#include "core/ledger/eviction/gittins_index.h"
#include "core/ledger/eviction/reuse_histogram.h"
#include "core/ledger/eviction/use_stamp.h"

namespace kvpool {

// Learned evicts the candidate that is worth least to keep, as learned from when blocks were used
// again so far (see GittinsIndex). Blocks seen once and blocks seen again are learned of apart;
// evicted blocks are remembered, four for each block that there is in the mean, so a block computed
// anew counts as seen again. A candidate hinted as done goes before all others.
//
// It compares the oldest candidate of each class and age bin, and among equals takes the older. It
// looks for them from the bins that are worth least on, and stops where the rest is worth more: a
// few searches in a tree, 80 at most.
class Learned : public EvictionPolicy {
 public:
  // `capacity` is how many blocks there can be. Requires that it is above 0.
  explicit Learned(uint32_t capacity);

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

  // What it has allocated for blocks and their orders; and for ghosts.
  size_t block_bytes() const { return notes_.size_bytes() + candidates_.size_bytes(); }
  size_t ghost_bytes() const { return ghosts_.size_bytes(); }
  uint32_t ghost_count() const { return ghosts_.size(); }

 private:
  static constexpr size_t kClassCount = 2;  // kSeenOnce and kSeenAgain, as groups.

  // The blocks of a class whose age is in a bin.
  struct ClassBin {
    double least_worth = 0;
    uint8_t class_index = 0;
    uint8_t bin = 0;
  };

  ReuseHistogram& histogram(bool is_seen_again) { return histograms_[is_seen_again ? 1 : 0]; }
  void EndByReuse(bool is_seen_again, UseStamp use) {
    histogram(is_seen_again).EndByReuse(TimeMsOf(use), clock_.now_ms());
  }
  void EndOutOfSight(bool is_seen_again, UseStamp use) {
    histogram(is_seen_again).EndOutOfSight(TimeMsOf(use), clock_.now_ms());
  }
  UseStamp LastUse(BlockId block) const { return notes_[ToIndex(block)].last_use; }
  int64_t AgeMs(BlockId block) const { return clock_.AgeMs(LastUse(block)); }
  // kNoBlock where the bin has no candidate.
  BlockId OldestOfBin(TenantSlot tenant, const ClassBin& class_bin) const;
  // Once in as many requests.
  void RenewIndices();
  void SortBins();
  // Takes the block out of everything.
  void Forget(BlockId block);

  BlockNotes notes_;
  Candidates candidates_{notes_};
  GhostTable ghosts_;
  UseClock clock_;
  std::array<ReuseHistogram, kClassCount> histograms_;
  std::array<GittinsIndex, kClassCount> indices_;
  // The least worth first; of equals, the oldest first.
  std::array<ClassBin, kClassCount * AgeBins::kCount> bins_by_worth_{};
  uint64_t request_count_ = 0;
  uint64_t known_count_ = 0;      // Blocks that there are.
  uint64_t known_count_sum_ = 0;  // At each request since the indices were made.
};

}  // namespace kvpool
