#include "core/ledger/prefix/prefix_index.h"

#include <algorithm>

#include "core/check.h"

namespace kvpool {

EntrySlot PrefixIndex::Find(const PrefixKey& key) const {
  return EntrySlot{entries_.Find(key, [this](const PrefixEntry& entry) { return !IsOld(entry); })};
}

void PrefixIndex::FindRun(std::span<const PrefixKey> keys, std::vector<EntrySlot>& found) const {
  // How many keys ahead their records come from memory. Where all is found, that hides most of it;
  // where nothing is, few were brought in vain.
  constexpr size_t kRecordsAhead = 8;
  constexpr size_t kBucketsAhead = 2 * kRecordsAhead;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kBucketsAhead < keys.size()) entries_.PrefetchBucket(keys[i + kBucketsAhead]);
    if (i + kRecordsAhead < keys.size()) entries_.PrefetchRecord(keys[i + kRecordsAhead]);
    const EntrySlot slot = Find(keys[i]);
    if (slot == kNoEntry) return;
    found.push_back(slot);
  }
}

size_t PrefixIndex::CountRun(std::span<const PrefixKey> keys) const {
  // Where one is findable, its parent is.
  const auto end = std::ranges::partition_point(
      keys, [this](const PrefixKey& key) { return Find(key) != kNoEntry; });
  return static_cast<size_t>(end - keys.begin());
}

InsertResult PrefixIndex::InsertFirst(const PrefixKey& key, BlockId block,
                                      const SpaceNames& space) {
  if (const EntrySlot known = Find(key); known != kNoEntry) return {.entry = known};
  const EntrySlot slot = MakeEntry(key, block);
  List(slot, kNoEntry, spaces_.AddEntry(space, MakeTenant(space.tenant).epoch));
  return {.entry = slot, .is_new = true};
}

InsertResult PrefixIndex::Insert(const PrefixKey& key, BlockId block, EntrySlot parent) {
  KVPOOL_CHECK(is_findable(parent));
  if (const EntrySlot known = Find(key); known != kNoEntry) return {.entry = known};
  const EntrySlot slot = MakeEntry(key, block);
  const SpaceSlot space = at(parent).space;
  spaces_.AddEntry(space);
  List(slot, parent, space);
  const bool parent_was_leaf = mutable_at(parent).child_count++ == 0;
  return {.entry = slot, .is_new = true, .parent_was_leaf = parent_was_leaf};
}

EntrySlot PrefixIndex::Remove(EntrySlot slot) {
  PrefixEntry& entry = mutable_at(slot);
  KVPOOL_CHECK(entry.state == PrefixEntry::State::kIndexed);
  Tenant& tenant = tenants_[ToIndex(spaces_.tenant(entry.space))];
  EntrySlot new_leaf = kNoEntry;
  if (IsOld(entry)) {
    tenant.old.Remove(slot, entries_);
    --old_count_;
  } else {
    KVPOOL_CHECK(entry.child_count == 0);
    if (entry.is_marked) MoveSnapshotsOff(slot);
    tenant.findable.Remove(slot, entries_);
    --tenant.findable_count;
    if (entry.parent != kNoEntry && --mutable_at(entry.parent).child_count == 0) {
      new_leaf = entry.parent;
    }
  }
  entries_.Unlist(ToIndex(slot));
  spaces_.DropEntry(entry.space);
  entry = {.key = entry.key, .block = entry.block, .state = PrefixEntry::State::kRemembered};
  return new_leaf;
}

void PrefixIndex::Forget(BlockId block) {
  const EntrySlot slot = EntryOf(block);
  if (slot == kNoEntry) return;
  KVPOOL_CHECK(at(slot).state == PrefixEntry::State::kRemembered);
  by_block_[ToIndex(block)].slot = kNoEntry;
  entries_.Drop(ToIndex(slot));
}

uint32_t PrefixIndex::Reset(TenantSlot tenant) {
  if (findable_count(tenant) == 0) return 0;
  Tenant& its = tenants_[ToIndex(tenant)];
  const uint32_t count = its.findable_count;
  // The old entries' spaces are of the epoch before; their links to each other mean nothing now.
  ++its.epoch;
  its.old.AppendAll(its.findable, entries_);
  its.findable_count = 0;
  old_count_ += count;
  if (!its.is_queued) old_tenants_.push_back(ToIndex(tenant));
  its.is_queued = true;
  for (auto& [id, snapshot] : snapshots_) {
    if (snapshot.tenant == ToIndex(tenant)) snapshot.after = kNoEntry;
  }
  return count;
}

uint32_t PrefixIndex::ResetAll() {
  uint32_t count = 0;
  for (uint32_t tenant = 0; tenant < tenants_.size(); ++tenant) count += Reset(TenantSlot{tenant});
  return count;
}

EntrySlot PrefixIndex::TakeOld() {
  while (!old_tenants_.empty()) {
    Tenant& tenant = tenants_[old_tenants_.back()];
    if (const EntrySlot slot = TakeOldOf(tenant); slot != kNoEntry) return slot;
    tenant.is_queued = false;
    old_tenants_.pop_back();
  }
  return kNoEntry;
}

EntrySlot PrefixIndex::TakeOld(TenantSlot tenant) {
  return ToIndex(tenant) < tenants_.size() ? TakeOldOf(tenants_[ToIndex(tenant)]) : kNoEntry;
}

SnapshotId PrefixIndex::OpenSnapshot(TenantSlot tenant) {
  return AddSnapshot({.tenant = ToIndex(tenant)});
}

SnapshotId PrefixIndex::OpenSnapshotOfAll() { return AddSnapshot({.is_of_all = true}); }

bool PrefixIndex::ReadSnapshot(SnapshotId id, size_t max_steps, std::vector<EntrySlot>& entries) {
  const auto found = snapshots_.find(id);
  KVPOOL_CHECK(found != snapshots_.end());
  Snapshot& snapshot = found->second;
  for (size_t step = 0; step < max_steps && snapshot.tenant != Snapshot::kOver; ++step) {
    const EntrySlot next = NextOf(snapshot);
    snapshot.after = next;
    if (next != kNoEntry) {
      mutable_at(next).is_marked = true;
      entries.push_back(next);
    } else if (snapshot.is_of_all && snapshot.tenant + size_t{1} < tenants_.size()) {
      ++snapshot.tenant;
    } else {
      snapshot.tenant = Snapshot::kOver;
    }
  }
  return snapshot.tenant != Snapshot::kOver;
}

bool PrefixIndex::WillCome(SnapshotId id, TenantSlot tenant) const {
  const auto found = snapshots_.find(id);
  KVPOOL_CHECK(found != snapshots_.end());
  const Snapshot& snapshot = found->second;
  if (snapshot.tenant == Snapshot::kOver) return false;
  return snapshot.tenant == ToIndex(tenant) ||
         (snapshot.is_of_all && snapshot.tenant < ToIndex(tenant));
}

void PrefixIndex::CloseSnapshot(SnapshotId id) { KVPOOL_CHECK(snapshots_.erase(id) == 1); }

uint32_t PrefixIndex::findable_count(TenantSlot tenant) const {
  return ToIndex(tenant) < tenants_.size() ? tenants_[ToIndex(tenant)].findable_count : 0;
}

PrefixIndex::Tenant& PrefixIndex::MakeTenant(TenantSlot tenant) {
  KVPOOL_CHECK(tenant != kNoTenant);
  if (ToIndex(tenant) >= tenants_.size()) tenants_.resize(ToIndex(tenant) + size_t{1});
  return tenants_[ToIndex(tenant)];
}

EntrySlot PrefixIndex::MakeEntry(const PrefixKey& key, BlockId block) {
  EntrySlot slot = EntryOf(block);
  if (slot != kNoEntry) {
    // Sealed still under this key: published again before, or after, a reset's leftover was taken.
    KVPOOL_CHECK(at(slot).key == key);
    if (at(slot).state == PrefixEntry::State::kIndexed) {
      KVPOOL_CHECK(IsOld(at(slot)));
      Remove(slot);
    }
    return slot;
  }
  slot = EntrySlot{entries_.Add()};
  PrefixEntry& entry = mutable_at(slot);
  entry.key = key;
  entry.block = block;
  by_block_.Make(ToIndex(block)).slot = slot;
  return slot;
}

void PrefixIndex::List(EntrySlot slot, EntrySlot parent, SpaceSlot space) {
  PrefixEntry& entry = mutable_at(slot);
  entry.state = PrefixEntry::State::kIndexed;
  entry.parent = parent;
  entry.space = space;
  entries_.List(ToIndex(slot));
  Tenant& tenant = tenants_[ToIndex(spaces_.tenant(space))];
  tenant.findable.Append(slot, entries_);
  ++tenant.findable_count;
}

EntrySlot PrefixIndex::TakeOldOf(Tenant& tenant) {
  const EntrySlot slot = tenant.old.head();
  if (slot != kNoEntry) Remove(slot);
  return slot;
}

SnapshotId PrefixIndex::AddSnapshot(const Snapshot& snapshot) {
  const SnapshotId id{++last_snapshot_id_};
  snapshots_[id] = snapshot;
  return id;
}

EntrySlot PrefixIndex::NextOf(const Snapshot& snapshot) const {
  if (snapshot.after != kNoEntry) return at(snapshot.after).next;
  return snapshot.tenant < tenants_.size() ? tenants_[snapshot.tenant].findable.head() : kNoEntry;
}

void PrefixIndex::MoveSnapshotsOff(EntrySlot slot) {
  const EntrySlot previous = at(slot).previous;
  for (auto& [id, snapshot] : snapshots_) {
    if (snapshot.after != slot) continue;
    snapshot.after = previous;
    if (previous != kNoEntry) mutable_at(previous).is_marked = true;
  }
}

}  // namespace kvpool
