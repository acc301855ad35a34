#include "core/ledger/eviction/candidates.h"

#include "core/check.h"

namespace kvpool {
namespace {

size_t GroupOf(const BlockNote& note) {
  const bool is_held = note.kind == LeafKind::kHeldLeaf;
  return static_cast<size_t>(is_held ? CandidateGroup::kHeldLeaf : note.group);
}

}  // namespace

void Candidates::Add(BlockId block, LeafKind kind) {
  BlockNote& note = notes_[ToIndex(block)];
  KVPOOL_CHECK(note.is_known && note.kind == LeafKind::kNone && kind != LeafKind::kNone);
  note.kind = kind;
  const size_t group = GroupOf(note);
  if (ToIndex(note.tenant) >= tenants_.size()) tenants_.resize(ToIndex(note.tenant) + 1);
  trees_of_all_.Insert(all_[group], block);
  trees_of_tenants_.Insert(tenants_[ToIndex(note.tenant)][group], block);
}

void Candidates::Remove(BlockId block, LeafKind kind) {
  BlockNote& note = notes_[ToIndex(block)];
  KVPOOL_CHECK(note.kind == kind && kind != LeafKind::kNone);
  const size_t group = GroupOf(note);
  note.kind = LeafKind::kNone;
  trees_of_all_.Remove(all_[group], block);
  trees_of_tenants_.Remove(tenants_[ToIndex(note.tenant)][group], block);
}

void Candidates::RemoveAny(BlockId block) {
  const LeafKind kind = notes_[ToIndex(block)].kind;
  if (kind != LeafKind::kNone) Remove(block, kind);
}

BlockId Candidates::Oldest(TenantSlot tenant, CandidateGroup group, UseStamp first) const {
  const auto index = static_cast<size_t>(group);
  if (tenant == kNoTenant) return trees_of_all_.OldestFrom(all_[index], first);
  if (ToIndex(tenant) >= tenants_.size()) return kNoBlock;
  return trees_of_tenants_.OldestFrom(tenants_[ToIndex(tenant)][index], first);
}

}  // namespace kvpool
