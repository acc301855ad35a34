#include "core/ledger/eviction/leaf_lru.h"

#include "core/check.h"

namespace kvpool {

void LeafLru::AddBlock(BlockId block, TenantSlot tenant, uint64_t prefix, TimePoint now) {
  BlockNote& note = notes_.Make(ToIndex(block));
  KVPOOL_CHECK(!note.is_known && tenant != kNoTenant);
  clock_.Advance(now);
  note = {.last_use = clock_.Stamp(), .prefix = prefix, .tenant = tenant, .is_known = true};
}

void LeafLru::UseBlock(BlockId block, TimePoint now) {
  KVPOOL_CHECK(notes_[ToIndex(block)].is_known);
  clock_.Advance(now);
  candidates_.Update(block, [this](BlockNote& note) { note.last_use = clock_.Stamp(); });
}

void LeafLru::AddCandidate(BlockId block) { candidates_.Add(block); }

void LeafLru::RemoveCandidate(BlockId block) { candidates_.Remove(block); }

void LeafLru::AddHeldLeaf(BlockId block) { candidates_.Add(block, LeafKind::kHeldLeaf); }

void LeafLru::RemoveHeldLeaf(BlockId block) { candidates_.Remove(block, LeafKind::kHeldLeaf); }

void LeafLru::HintDone(BlockId block) { KVPOOL_CHECK(notes_[ToIndex(block)].is_known); }

void LeafLru::ForgetEvicted(BlockId block, TimePoint now) { ForgetRemoved(block, now); }

void LeafLru::ForgetRemoved(BlockId block, TimePoint /*now*/) {
  BlockNote& note = notes_[ToIndex(block)];
  KVPOOL_CHECK(note.is_known);
  candidates_.RemoveAny(block);
  note = {};
}

void LeafLru::CountRequest(TimePoint now) { clock_.Advance(now); }

std::optional<BlockId> LeafLru::Choose(TenantSlot tenant, TimePoint now) {
  clock_.Advance(now);
  const BlockId block = candidates_.Oldest(tenant, CandidateGroup::kSeenOnce);
  if (block == kNoBlock) return std::nullopt;
  return block;
}

std::optional<BlockId> LeafLru::ChooseHeldLeaf(TenantSlot tenant) const {
  const BlockId block = candidates_.Oldest(tenant, CandidateGroup::kHeldLeaf);
  if (block == kNoBlock) return std::nullopt;
  return block;
}

}  // namespace kvpool
