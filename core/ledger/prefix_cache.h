#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"

#include "core/ids.h"
#include "core/ledger/block_table.h"
#include "core/ledger/eviction/eviction_policy.h"
#include "core/ledger/options.h"
#include "core/ledger/prefix/prefix_hasher.h"
#include "core/ledger/prefix/prefix_index.h"
#include "core/ledger/prefix_log.h"
#include "core/ledger/tenant_table.h"

namespace kvpool {

// PrefixCache is which blocks are findable under which prefix, and which of them goes next: the
// index, and the policy and the log kept in step with it. It counts no references: References
// does, and tells it what becomes of findable blocks.
class PrefixCache {
 public:
  // Both must outlive it.
  PrefixCache(const LedgerOptions& options, const BlockTable& blocks, const TenantTable& tenants);

  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // The findable blocks of the longest prefix, `limit` of them at most, in order. None where the
  // parent is not findable in that very space.
  std::vector<BlockId> Match(const PrefixKeys& prefix, size_t limit) const;
  // How many that is, in time logarithmic in it.
  size_t CountMatch(const PrefixKeys& prefix, size_t limit) const;
  // Where the prefix goes on after its first `skip` blocks: the entry, or kNoEntry at the start of
  // a sequence; absent where that is not findable.
  std::optional<EntrySlot> ParentOf(const PrefixKeys& prefix, size_t skip) const;
  // The block's entry is of another key than `key`: it is sealed under that one.
  bool IsSealedOtherwise(BlockId block, const PrefixKey& key) const;

  // The block is to be findable after `parent` (kNoEntry: at the start) and in `space`. Where its
  // key is findable already, nothing changes. Requires a held block, not sealed otherwise.
  InsertResult Insert(const PrefixKey& key, BlockId block, EntrySlot parent,
                      const SpaceNames& space, std::span<const uint32_t> tokens, TimePoint now);
  // After the last of a run of blocks, each inserted after the one before.
  void EndRun();

  // A request came that looks for a block at least; and it uses these, from the root on.
  void CountRequest(TimePoint now) { policy_->CountRequest(now); }
  void Use(BlockId block, TimePoint now);
  // Nobody is expected to use the block again.
  void HintDone(BlockId block);

  // A cached block became held, or a findable one cached. Not of old ones.
  void OnHeld(BlockId block);
  void OnUnheld(BlockId block);
  // A block became free.
  void OnFree(BlockId block) { index_.Forget(block); }

  // What goes next, of that tenant's, or of all where it is kNoTenant: the policy's choice of the
  // unheld leaves; where there is none, the held leaf used longest ago. What a reset left may
  // come too, unless TakeOld has taken it.
  std::optional<BlockId> Choose(TenantSlot tenant, TimePoint now) {
    return policy_->Choose(tenant, now);
  }
  std::optional<BlockId> ChooseHeldLeaf(TenantSlot tenant) const {
    return policy_->ChooseHeldLeaf(tenant);
  }
  // Makes a findable leaf, or an old block, unfindable: to make room, or for another reason.
  void Evict(BlockId block, TimePoint now);
  void Remove(BlockId block, TimePoint now);
  // The same for an old one, of that tenant or any. Absent where there is none.
  std::optional<BlockId> TakeOld(TenantSlot tenant, TimePoint now);

  // Makes all that is findable (of that tenant) old. Returns how many blocks that is.
  uint32_t Reset(TenantSlot tenant);

  // As PrefixIndex's; of all where there is no tenant.
  SnapshotId OpenSnapshot(std::optional<TenantSlot> tenant) {
    return tenant.has_value() ? index_.OpenSnapshot(*tenant) : index_.OpenSnapshotOfAll();
  }
  bool ReadSnapshot(SnapshotId id, size_t max_steps, std::vector<EntrySlot>& entries) {
    return index_.ReadSnapshot(id, max_steps, entries);
  }
  void CloseSnapshot(SnapshotId id) { index_.CloseSnapshot(id); }

  bool is_findable(BlockId block) const;
  bool is_old(BlockId block) const;
  bool has_old() const { return index_.old_count() > 0; }
  // These require a findable block. The parent of one that has none is kNoBlock.
  uint32_t child_count(BlockId block) const { return entry(block).child_count; }
  BlockId parent(BlockId block) const;
  BlockRef RefOf(BlockId block) const {
    return {.block = block, .generation = Generation{blocks_.record(block).generation}};
  }
  const PrefixIndex& index() const { return index_; }
  // All that became findable or unfindable, as it happened.
  const PrefixLog& log() const { return log_; }

  // INTERNAL names what is wrong. Takes linear time.
  absl::Status CheckInvariants() const;

 private:
  const PrefixEntry& entry(BlockId block) const { return index_.at(index_.EntryOf(block)); }
  // A findable block became a leaf, or is none any more.
  void AddLeaf(BlockId block);
  void DropLeaf(BlockId block);
  // Once the policy has been told.
  void RemoveEntry(BlockId block);
  void LogRemoved(EntrySlot slot);

  const BlockTable& blocks_;
  const TenantTable& tenants_;
  PrefixIndex index_;
  PrefixLog log_;
  const std::unique_ptr<EvictionPolicy> policy_;
  EntrySlot run_end_ = kNoEntry;  // Inserted last, and not told to the policy as a leaf yet.
};

}  // namespace kvpool
