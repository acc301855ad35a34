#include "core/ledger/prefix_cache.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/ledger/eviction/leaf_lru.h"
#include "core/ledger/eviction/learned.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

std::unique_ptr<EvictionPolicy> MakePolicy(const LedgerOptions& options) {
  if (options.eviction_policy == EvictionPolicyName::kLeafLru) return std::make_unique<LeafLru>();
  return std::make_unique<Learned>(options.num_blocks);
}

// A log of more changes than it takes to tell all there is would help nobody.
uint32_t LogCapacity(const LedgerOptions& options) {
  constexpr uint64_t kChangesABlock = 2;
  constexpr uint64_t kLeast = 4096;
  const uint64_t useful = std::max(kLeast, kChangesABlock * options.num_blocks);
  return static_cast<uint32_t>(std::min<uint64_t>(useful, options.limits.max_logged_changes));
}

}  // namespace

PrefixCache::PrefixCache(const LedgerOptions& options, const BlockTable& blocks,
                         const TenantTable& tenants)
    : blocks_(blocks),
      tenants_(tenants),
      log_(LogCapacity(options), options.before_first_change),
      policy_(MakePolicy(options)) {}

std::vector<BlockId> PrefixCache::Match(const PrefixKeys& prefix, size_t limit) const {
  std::vector<BlockId> blocks;
  if (!ParentOf(prefix, 0).has_value()) return blocks;
  std::vector<EntrySlot> found;
  index_.FindRun(std::span(prefix.blocks).first(std::min(limit, prefix.blocks.size())), found);
  blocks.reserve(found.size());
  for (const EntrySlot slot : found) {
    blocks.push_back(index_.at(slot).block);
    // What using it looks at.
    blocks_.Prefetch(blocks.back());
    index_.PrefetchEntryOf(blocks.back());
    policy_->Prefetch(blocks.back());
  }
  return blocks;
}

size_t PrefixCache::CountMatch(const PrefixKeys& prefix, size_t limit) const {
  if (!ParentOf(prefix, 0).has_value()) return 0;
  return index_.CountRun(std::span(prefix.blocks).first(std::min(limit, prefix.blocks.size())));
}

std::optional<EntrySlot> PrefixCache::ParentOf(const PrefixKeys& prefix, size_t skip) const {
  if (skip == 0 && !prefix.parent.has_value()) return kNoEntry;
  const EntrySlot slot = index_.Find(skip > 0 ? prefix.blocks[skip - 1] : *prefix.parent);
  // A parent that the caller names may be one of another space.
  if (slot == kNoEntry || index_.root(slot) != prefix.root) return std::nullopt;
  return slot;
}

bool PrefixCache::IsSealedOtherwise(BlockId block, const PrefixKey& key) const {
  const EntrySlot slot = index_.EntryOf(block);
  return slot != kNoEntry && index_.at(slot).key != key;
}

InsertResult PrefixCache::Insert(const PrefixKey& key, BlockId block, EntrySlot parent,
                                 const SpaceNames& space, std::span<const uint32_t> tokens,
                                 TimePoint now) {
  if (const EntrySlot known = index_.Find(key); known != kNoEntry) return {.entry = known};
  if (is_old(block)) policy_->ForgetRemoved(block, now);
  const InsertResult result = parent == kNoEntry ? index_.InsertFirst(key, block, space)
                                                 : index_.Insert(key, block, parent);
  policy_->AddBlock(block, space.tenant, key.prefix64(), now);
  if (result.parent_was_leaf && parent != run_end_) DropLeaf(index_.at(parent).block);
  run_end_ = result.entry;
  log_.Add(
      {.kind = PrefixChange::Kind::kStored,
       .key = key,
       .parent = parent == kNoEntry ? std::nullopt : std::optional(index_.at(parent).key),
       .block = RefOf(block),
       .tenant = space.tenant},
      {.tenant = tenants_.name(space.tenant), .model_id = space.model_id, .adapter = space.adapter},
      tokens);
  return result;
}

void PrefixCache::EndRun() {
  if (run_end_ != kNoEntry) AddLeaf(index_.at(run_end_).block);
  run_end_ = kNoEntry;
}

void PrefixCache::Use(BlockId block, TimePoint now) { policy_->UseBlock(block, now); }

void PrefixCache::HintDone(BlockId block) { policy_->HintDone(block); }

void PrefixCache::OnHeld(BlockId block) {
  if (entry(block).child_count > 0) return;
  policy_->RemoveCandidate(block);
  policy_->AddHeldLeaf(block);
}

void PrefixCache::OnUnheld(BlockId block) {
  if (entry(block).child_count > 0) return;
  policy_->RemoveHeldLeaf(block);
  policy_->AddCandidate(block);
}

std::optional<BlockId> PrefixCache::TakeOld(TenantSlot tenant, TimePoint now) {
  const EntrySlot slot = tenant == kNoTenant ? index_.TakeOld() : index_.TakeOld(tenant);
  if (slot == kNoEntry) return std::nullopt;
  const BlockId block = index_.at(slot).block;
  policy_->ForgetRemoved(block, now);
  return block;
}

void PrefixCache::Evict(BlockId block, TimePoint now) {
  policy_->ForgetEvicted(block, now);
  RemoveEntry(block);
}

void PrefixCache::Remove(BlockId block, TimePoint now) {
  policy_->ForgetRemoved(block, now);
  RemoveEntry(block);
}

uint32_t PrefixCache::Reset(TenantSlot tenant) {
  const uint32_t count = tenant == kNoTenant ? index_.ResetAll() : index_.Reset(tenant);
  if (count > 0) {
    log_.Add({.kind = PrefixChange::Kind::kCleared, .tenant = tenant},
             {.tenant = tenants_.name(tenant)});
  }
  return count;
}

bool PrefixCache::is_findable(BlockId block) const {
  const EntrySlot slot = index_.EntryOf(block);
  return slot != kNoEntry && index_.is_findable(slot);
}

bool PrefixCache::is_old(BlockId block) const {
  if (!has_old()) return false;
  const EntrySlot slot = index_.EntryOf(block);
  return slot != kNoEntry && index_.is_old(slot);
}

BlockId PrefixCache::parent(BlockId block) const {
  const EntrySlot slot = entry(block).parent;
  return slot == kNoEntry ? kNoBlock : index_.at(slot).block;
}

absl::Status PrefixCache::CheckInvariants() const {
  KVPOOL_RETURN_IF_ERROR(index_.CheckInvariants());
  uint32_t findable = 0;
  for (uint32_t i = 0; i < blocks_.num_blocks(); ++i) {
    const BlockId block{i};
    const bool is_flagged = blocks_.record(block).has(BlockRecord::kFindable);
    if (is_flagged != (is_findable(block) || is_old(block))) {
      return absl::InternalError(absl::StrCat("ledger: block ", i, is_flagged ? " is" : " is not",
                                              " the cache's, unlike what the index has"));
    }
    if (is_flagged) ++findable;
    const bool is_sealed = blocks_.record(block).has(BlockRecord::kSealed);
    if (is_sealed != (index_.EntryOf(block) != kNoEntry)) {
      return absl::InternalError(
          absl::StrCat("ledger: block ", i, " is sealed, or has a key, and not both"));
    }
  }
  if (findable == blocks_.findable_count()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("ledger: ", blocks_.findable_count(),
                                          " blocks are the cache's, but ", findable,
                                          " by recount"));
}

void PrefixCache::AddLeaf(BlockId block) {
  if (blocks_.state(block) == BlockState::kCached) {
    policy_->AddCandidate(block);
  } else {
    policy_->AddHeldLeaf(block);
  }
}

void PrefixCache::DropLeaf(BlockId block) {
  if (blocks_.state(block) == BlockState::kCached) {
    policy_->RemoveCandidate(block);
  } else {
    policy_->RemoveHeldLeaf(block);
  }
}

void PrefixCache::RemoveEntry(BlockId block) {
  const EntrySlot slot = index_.EntryOf(block);
  if (index_.is_findable(slot)) LogRemoved(slot);  // A reset has told of an old one.
  const EntrySlot new_leaf = index_.Remove(slot);
  if (new_leaf != kNoEntry) AddLeaf(index_.at(new_leaf).block);
}

void PrefixCache::LogRemoved(EntrySlot slot) {
  log_.Add({.kind = PrefixChange::Kind::kRemoved,
            .key = index_.at(slot).key,
            .tenant = index_.tenant(slot)},
           {.tenant = tenants_.name(index_.tenant(slot)),
            .model_id = index_.model_id(slot),
            .adapter = index_.adapter(slot)});
}

}  // namespace kvpool
