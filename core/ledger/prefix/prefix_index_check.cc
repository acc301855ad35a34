#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

#include "core/ledger/prefix/prefix_index.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

template <typename... Parts>
absl::Status Fault(const Parts&... parts) {
  return absl::InternalError(absl::StrCat("prefix index: ", parts...));
}

}  // namespace

absl::Status PrefixIndex::CheckInvariants() const {
  KVPOOL_RETURN_IF_ERROR(CheckEntries());
  KVPOOL_RETURN_IF_ERROR(CheckTenants());
  return CheckSnapshots();
}

// Blocks and entries lead to each other; keys lead to findable entries; children are counted; so
// are the entries of a space.
absl::Status PrefixIndex::CheckEntries() const {
  std::vector<uint32_t> child_counts(entries_.end(), 0);
  absl::flat_hash_map<uint32_t, uint32_t> space_counts;
  uint32_t indexed_count = 0;
  for (uint32_t i = 0; i < entries_.end(); ++i) {
    const PrefixEntry& entry = entries_[i];
    if (entry.state == PrefixEntry::State::kUnused) continue;
    if (EntryOf(entry.block) != EntrySlot{i}) {
      return Fault("entry ", i, " is not that of its block ", ToIndex(entry.block));
    }
    if (entry.state == PrefixEntry::State::kRemembered) continue;
    ++indexed_count;
    ++space_counts[ToIndex(entry.space)];
    const bool is_old = IsOld(entry);
    if (!is_old && Find(entry.key) != EntrySlot{i}) return Fault("entry ", i, " is not found");
    if (is_old && Find(entry.key) == EntrySlot{i}) return Fault("old entry ", i, " is found");
    if (is_old || entry.parent == kNoEntry) continue;
    if (!is_findable(entry.parent)) return Fault("the parent of entry ", i, " is not findable");
    if (at(entry.parent).space != entry.space) return Fault("entry ", i, " left its space");
    ++child_counts[ToIndex(entry.parent)];
  }
  for (uint32_t i = 0; i < entries_.end(); ++i) {
    if (!is_findable(EntrySlot{i})) continue;
    if (entries_[i].child_count == child_counts[i]) continue;
    return Fault("entry ", i, " counts ", entries_[i].child_count, " children of ",
                 child_counts[i]);
  }
  for (const auto& [space, count] : space_counts) {
    if (spaces_.entry_count(SpaceSlot{space}) == count) continue;
    return Fault("space ", space, " counts ", spaces_.entry_count(SpaceSlot{space}), " entries of ",
                 count);
  }
  if (spaces_.size() != space_counts.size()) {
    return Fault("there are ", spaces_.size(), " spaces, and ", space_counts.size(), " in use");
  }
  if (entries_.listed_count() != indexed_count) {
    return Fault(entries_.listed_count(), " keys are listed of ", indexed_count);
  }
  return absl::OkStatus();
}

// Each indexed entry is in one list, its tenant's; parents come before their children.
absl::Status PrefixIndex::CheckTenants() const {
  std::vector<bool> was_seen(entries_.end(), false);
  uint32_t findable_sum = 0;
  uint32_t old_sum = 0;
  for (uint32_t i = 0; i < tenants_.size(); ++i) {
    const Tenant& tenant = tenants_[i];
    uint32_t count = 0;
    EntrySlot before = kNoEntry;
    for (EntrySlot slot = tenant.findable.head(); slot != kNoEntry; slot = at(slot).next) {
      const PrefixEntry& entry = at(slot);
      if (entry.previous != before) return Fault("the list of tenant ", i, " is broken");
      if (!is_findable(slot) || this->tenant(slot) != TenantSlot{i} || was_seen[ToIndex(slot)]) {
        return Fault("entry ", ToIndex(slot), " is wrongly in the list of tenant ", i);
      }
      if (entry.parent != kNoEntry && !was_seen[ToIndex(entry.parent)]) {
        return Fault("entry ", ToIndex(slot), " comes before its parent");
      }
      was_seen[ToIndex(slot)] = true;
      ++count;
      before = slot;
    }
    if (tenant.findable.tail() != before) return Fault("the list of tenant ", i, " has no end");
    if (tenant.findable_count != count) return Fault("tenant ", i, " counts wrongly");
    findable_sum += count;
    before = kNoEntry;
    for (EntrySlot slot = tenant.old.head(); slot != kNoEntry; slot = at(slot).next) {
      if (at(slot).previous != before || !is_old(slot) || this->tenant(slot) != TenantSlot{i} ||
          was_seen[ToIndex(slot)]) {
        return Fault("entry ", ToIndex(slot), " is wrongly in the old list of tenant ", i);
      }
      was_seen[ToIndex(slot)] = true;
      ++old_sum;
      before = slot;
    }
    if (tenant.old.tail() != before) return Fault("the old list of tenant ", i, " has no end");
    if (!tenant.old.is_empty() && !tenant.is_queued) return Fault("tenant ", i, " is not queued");
  }
  if (findable_sum != findable_count() || old_sum != old_count_) {
    return Fault(findable_sum, " entries are findable and ", old_sum, " old, not ",
                 findable_count(), " and ", old_count_);
  }
  return absl::OkStatus();
}

// A snapshot stands after a marked entry of its tenant's list, or before all of it.
absl::Status PrefixIndex::CheckSnapshots() const {
  for (const auto& [id, snapshot] : snapshots_) {
    if (snapshot.after == kNoEntry) continue;
    if (!is_findable(snapshot.after) || !at(snapshot.after).is_marked ||
        tenant(snapshot.after) != TenantSlot{snapshot.tenant}) {
      return Fault("a snapshot stands after entry ", ToIndex(snapshot.after));
    }
  }
  return absl::OkStatus();
}

}  // namespace kvpool
