#include "tests/model/eviction/policy_model.h"

#include <algorithm>
#include <chrono>

namespace kvpool::test {

void PolicyModel::AddBlock(BlockId block, TenantSlot tenant, uint64_t prefix, TimePoint now) {
  Advance(now);
  blocks_[block] = {
      .tenant = tenant, .prefix = prefix, .use_ms = now_ms_, .use_number = ++use_count_};
}

void PolicyModel::UseBlock(BlockId block, TimePoint now) {
  Advance(now);
  ModelBlock& used = blocks_.at(block);
  used.use_ms = now_ms_;
  used.use_number = ++use_count_;
}

void PolicyModel::ForgetEvicted(BlockId block, TimePoint now) {
  Advance(now);
  blocks_.erase(block);
}

void PolicyModel::ForgetRemoved(BlockId block, TimePoint now) {
  Advance(now);
  blocks_.erase(block);
}

std::optional<BlockId> PolicyModel::ChooseHeldLeaf(TenantSlot tenant) const {
  std::map<uint64_t, BlockId> leaves;
  for (const auto& [id, block] : blocks_) {
    if (!block.is_held_leaf || (tenant != kNoTenant && tenant != block.tenant)) continue;
    leaves[block.use_number] = id;
  }
  if (leaves.empty()) return std::nullopt;
  return leaves.begin()->second;
}

void PolicyModel::Advance(TimePoint now) {
  using std::chrono::milliseconds;
  now_ms_ = std::max<int64_t>(
      now_ms_, std::chrono::duration_cast<milliseconds>(now.time_since_epoch()).count());
}

std::map<uint64_t, BlockId> PolicyModel::CandidatesByUse(TenantSlot tenant) const {
  std::map<uint64_t, BlockId> candidates;
  for (const auto& [id, block] : blocks_) {
    if (!block.is_candidate || (tenant != kNoTenant && tenant != block.tenant)) continue;
    candidates[block.use_number] = id;
  }
  return candidates;
}

std::optional<BlockId> LeafLruModel::Choose(TenantSlot tenant, TimePoint now) {
  Advance(now);
  const std::map<uint64_t, BlockId> candidates = CandidatesByUse(tenant);
  if (candidates.empty()) return std::nullopt;
  return candidates.begin()->second;
}

}  // namespace kvpool::test
