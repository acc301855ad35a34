#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

#include "core/ids.h"
#include "core/ledger/eviction/paged_array.h"
#include "core/ledger/prefix/entry_list.h"
#include "core/ledger/prefix/prefix_key.h"
#include "core/ledger/prefix/prefix_slots.h"
#include "core/ledger/prefix/space_table.h"
#include "core/ledger/slots.h"

namespace kvpool {

// What PrefixIndex::Insert did.
struct InsertResult {
  EntrySlot entry = kNoEntry;    // The key's: the new one, or the one that was there.
  bool is_new = false;           // Else nothing changed; the entry may be of another block.
  bool parent_was_leaf = false;  // The parent was a leaf, and is none any more. The new one is.
};

// PrefixIndex finds blocks by prefix keys. It counts no references and evicts nothing by itself.
//
// From Insert until Forget a block has one entry, which remembers its key. The entry is findable;
// or old, unfindable by a reset, until TakeOld or Remove; or remembered, after one of these.
// Invariant: a findable entry's parent is findable. So of the findable ones only leaves, those
// without findable children, can be removed.
//
// No call takes time that grows with the index, but for resets (a step a tenant) and
// CheckInvariants. Not thread-safe: Pool holds its mutex around every call.
class PrefixIndex {
 public:
  PrefixIndex() = default;
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // The findable entry of that key; kNoEntry if there is none.
  EntrySlot Find(const PrefixKey& key) const;
  // Appends to `found` the entries of the first keys, up to the first that is not findable.
  void FindRun(std::span<const PrefixKey> keys, std::vector<EntrySlot>& found) const;

  // The same count alone, of keys of one sequence, each after the one before: takes time
  // logarithmic in them.
  size_t CountRun(std::span<const PrefixKey> keys) const;

  // Makes a block findable at the start of a sequence, or after `parent` and in its space. A key
  // that is findable already stays with the block that it has. Requires a findable parent, and a
  // block that has no entry of another key. An old entry of the block's is replaced.
  InsertResult InsertFirst(const PrefixKey& key, BlockId block, const SpaceNames& space);
  InsertResult Insert(const PrefixKey& key, BlockId block, EntrySlot parent);

  // Makes a findable leaf, or any old entry, unfindable and remembered. Returns its parent if that
  // is findable and has become a leaf by it, else kNoEntry. The slot stays the block's.
  EntrySlot Remove(EntrySlot slot);
  // The block is not sealed any more: to be called whenever one that may have an entry becomes
  // free. Requires that the entry, if any, is remembered.
  void Forget(BlockId block);

  // At once, nothing that was findable (of that tenant) is findable any more: it is old. Returns
  // how many entries that is.
  uint32_t Reset(TenantSlot tenant);
  uint32_t ResetAll();
  // Makes an old entry (of that tenant) remembered, as Remove does, and returns it; kNoEntry if
  // there is none.
  EntrySlot TakeOld();
  EntrySlot TakeOld(TenantSlot tenant);

  // Begins to go through the findable entries, of one tenant or all, while the index changes: in
  // the order of insertion, so parents first and what is inserted meanwhile last. The caller tells
  // what is removed, or inserted where it has been.
  SnapshotId OpenSnapshot(TenantSlot tenant);
  SnapshotId OpenSnapshotOfAll();
  // Appends to `entries` the next ones, after at most `max_steps` steps (an entry or a tenant
  // each). Returns whether there may be more.
  bool ReadSnapshot(SnapshotId id, size_t max_steps, std::vector<EntrySlot>& entries);
  // Whether it will come to what the tenant inserted since it was read.
  bool WillCome(SnapshotId id, TenantSlot tenant) const;
  void CloseSnapshot(SnapshotId id);  // Ended or not. A few may be open at a time.

  // The block's entry, of whatever state; kNoEntry if it is not sealed.
  EntrySlot EntryOf(BlockId block) const {
    return by_block_.has(ToIndex(block)) ? by_block_[ToIndex(block)].slot : kNoEntry;
  }
  // A hint that makes what EntryOf looks at be on its way from memory.
  void PrefetchEntryOf(BlockId block) const { by_block_.Prefetch(ToIndex(block)); }
  // These require a slot that is a block's.
  const PrefixEntry& at(EntrySlot slot) const { return entries_[ToIndex(slot)]; }
  bool is_findable(EntrySlot slot) const { return is_indexed(slot) && !IsOld(at(slot)); }
  bool is_old(EntrySlot slot) const { return is_indexed(slot) && IsOld(at(slot)); }
  // These require a findable or old entry.
  const PrefixKey& root(EntrySlot slot) const { return spaces_.root(at(slot).space); }
  TenantSlot tenant(EntrySlot slot) const { return spaces_.tenant(at(slot).space); }
  const std::string& model_id(EntrySlot slot) const { return spaces_.model_id(at(slot).space); }
  const std::string& adapter(EntrySlot slot) const { return spaces_.adapter(at(slot).space); }

  uint32_t findable_count() const { return entries_.listed_count() - old_count_; }
  uint32_t findable_count(TenantSlot tenant) const;
  uint32_t old_count() const { return old_count_; }

  // Recounts everything; INTERNAL names the first difference. Takes time linear in all of it.
  absl::Status CheckInvariants() const;

 private:
  struct BlockEntry {
    EntrySlot slot = kNoEntry;
  };
  struct Tenant {
    EntryList findable;  // In the order of insertion, so parents come first.
    EntryList old;
    uint64_t epoch = 0;  // That of the spaces of the findable ones. A reset begins the next.
    uint32_t findable_count = 0;
    bool is_queued = false;  // In `old_tenants_`.
  };
  struct Snapshot {
    static constexpr uint32_t kOver = UINT32_MAX;
    uint32_t tenant = 0;  // Whose list it is in. kOver: it has been through all.
    bool is_of_all = false;
    EntrySlot after = kNoEntry;  // Given last of that list, if any.
  };

  PrefixEntry& mutable_at(EntrySlot slot) { return entries_[ToIndex(slot)]; }
  bool is_indexed(EntrySlot slot) const { return at(slot).state == PrefixEntry::State::kIndexed; }
  bool IsOld(const PrefixEntry& entry) const {
    if (old_count_ == 0) return false;
    return spaces_.epoch(entry.space) != tenants_[ToIndex(spaces_.tenant(entry.space))].epoch;
  }
  Tenant& MakeTenant(TenantSlot tenant);
  EntrySlot MakeEntry(const PrefixKey& key, BlockId block);
  void List(EntrySlot slot, EntrySlot parent, SpaceSlot space);
  EntrySlot TakeOldOf(Tenant& tenant);
  SnapshotId AddSnapshot(const Snapshot& snapshot);
  // The entry that comes next in the snapshot's tenant; kNoEntry if there is none.
  EntrySlot NextOf(const Snapshot& snapshot) const;
  void MoveSnapshotsOff(EntrySlot slot);
  absl::Status CheckEntries() const;
  absl::Status CheckTenants() const;
  absl::Status CheckSnapshots() const;

  EntryTable entries_;
  PagedArray<BlockEntry, 1024> by_block_;
  SpaceTable spaces_;
  std::vector<Tenant> tenants_;        // By TenantSlot.
  std::vector<uint32_t> old_tenants_;  // Those that may have old entries.
  uint32_t old_count_ = 0;
  absl::flat_hash_map<SnapshotId, Snapshot> snapshots_;
  uint64_t last_snapshot_id_ = 0;
};

}  // namespace kvpool
