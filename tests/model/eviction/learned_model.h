#pragma once

#include <array>
#include <vector>

#include "tests/model/eviction/policy_model.h"

namespace kvpool::test {

// The learned policy as its rules are told: all blocks, ghosts and candidates are looked through.
class LearnedModel : public PolicyModel {
 public:
  static constexpr size_t kBins = 40;

  explicit LearnedModel(uint32_t capacity);

  void AddBlock(BlockId block, TenantSlot tenant, uint64_t prefix, TimePoint now) override;
  void UseBlock(BlockId block, TimePoint now) override;
  void ForgetEvicted(BlockId block, TimePoint now) override;
  void ForgetRemoved(BlockId block, TimePoint now) override;
  void CountRequest(TimePoint now) override;
  std::optional<BlockId> Choose(TenantSlot tenant, TimePoint now) override;

  size_t ghost_count() const { return ghosts_.size(); }

 private:
  // Of the blocks seen once, or of those seen again.
  struct Class {
    std::array<double, kBins> reached{};
    std::array<double, kBins> reuses{};
    std::array<int64_t, kBins> reached_lately{};  // Not in `reached` yet.
    std::array<double, kBins> index{};            // At the begin of each bin.
  };

  size_t BinOf(int64_t age_ms) const;
  // The age that a use which goes on counts as having: from the begin of its cell.
  int64_t RoundedAge(int64_t use_ms) const;
  void BeginUse(ModelBlock& block);
  void EndUse(const ModelBlock& block, bool is_reuse);
  void CountReached();
  void ComputeIndices();
  double ValueOf(const ModelBlock& block) const;

  size_t ghost_limit_;
  std::array<int64_t, kBins + 1> begins_ms_{};
  std::array<Class, 2> classes_;    // Seen once, seen again.
  std::vector<ModelBlock> ghosts_;  // The one evicted first in front.
  uint64_t request_count_ = 0;
  uint64_t block_count_sum_ = 0;  // At each request since the indices were computed.
};

}  // namespace kvpool::test
