#include "core/ledger/eviction/candidates.h"

#include "core/check.h"

namespace kvpool {

void Candidates::Add(BlockId block) {
  BlockNote& note = notes_[ToIndex(block)];
  KVPOOL_CHECK(note.is_known && !note.is_candidate);
  note.is_candidate = true;
  const auto group = static_cast<size_t>(note.group);
  if (ToIndex(note.tenant) >= tenants_.size()) tenants_.resize(ToIndex(note.tenant) + 1);
  trees_of_all_.Insert(all_[group], block);
  trees_of_tenants_.Insert(tenants_[ToIndex(note.tenant)][group], block);
}

void Candidates::Remove(BlockId block) {
  BlockNote& note = notes_[ToIndex(block)];
  KVPOOL_CHECK(note.is_candidate);
  note.is_candidate = false;
  const auto group = static_cast<size_t>(note.group);
  trees_of_all_.Remove(all_[group], block);
  trees_of_tenants_.Remove(tenants_[ToIndex(note.tenant)][group], block);
}

BlockId Candidates::Oldest(TenantSlot tenant, CandidateGroup group, UseStamp first) const {
  const auto index = static_cast<size_t>(group);
  if (tenant == kNoTenant) return trees_of_all_.OldestFrom(all_[index], first);
  if (ToIndex(tenant) >= tenants_.size()) return kNoBlock;
  return trees_of_tenants_.OldestFrom(tenants_[ToIndex(tenant)][index], first);
}

}  // namespace kvpool
