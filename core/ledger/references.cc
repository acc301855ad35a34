#include "core/ledger/references.h"

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

absl::Status EntryError(Reason reason, size_t index, BlockId block, absl::string_view what) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      {.reason = reason, .index = static_cast<uint32_t>(index), .block_id = ToIndex(block)},
      absl::StrCat("entry ", index, ": block ", ToIndex(block), " ", what));
}

absl::Status NotHeldError(size_t index, BlockId block) {
  return EntryError(Reason::kNotHeld, index, block, "is not held by the session");
}

absl::Status StaleError(size_t index, const BlockRef& ref, uint64_t generation) {
  return EntryError(Reason::kStaleBlock, index, ref.block,
                    absl::StrCat("is at generation ", generation, ", not ",
                                 static_cast<uint64_t>(ref.generation)));
}

absl::Status ReferencesError(size_t index, BlockId block, const BlockRecord& record) {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      {.reason = Reason::kLimit, .index = static_cast<uint32_t>(index), .block_id = ToIndex(block)},
      absl::StrCat("entry ", index, ": block ", ToIndex(block), " has ", record.references,
                   " references already"));
}

bool IsStale(const BlockRef& ref, const BlockRecord& record) {
  return ref.generation != Generation{} && ref.generation != Generation{record.generation};
}

}  // namespace

References::References(const LedgerOptions& options, TenantTable& tenants)
    : max_references_(options.limits.max_references_per_block),
      max_sharers_(options.limits.max_sharers),
      tenants_(tenants),
      blocks_(options.num_blocks, options.before_first_generation),
      holders_(blocks_),
      cache_(options, blocks_, tenants) {
  if (options.trace) trace_ = std::make_unique<BlockTrace>();
}

absl::StatusOr<DropEffect> References::CheckDrop(const Session& session,
                                                 std::span<const BlockRef> refs) {
  DropEffect effect;
  absl::Status status;
  scratch_.clear();
  // Counts down for the while, so that entries of one block count as they stand.
  for (size_t i = 0; i < refs.size(); ++i) {
    const BlockId block = refs[i].block;
    const HolderSlot slot = holders_.Find(block, session.slot);
    if (slot == kNoHolder || holders_.at(slot).count == 0) {
      status = NotHeldError(i, block);
      break;
    }
    BlockRecord& record = blocks_.mutable_record(block);
    if (IsStale(refs[i], record)) {
      status = StaleError(i, refs[i], record.generation);
      break;
    }
    scratch_.push_back(slot);
    --record.references;
    if (--holders_.at(slot).count > 0) continue;
    ++effect.let_go;
    const bool is_claimed = !record.has(BlockRecord::kSealed) && session.has_claim_of_member(slot);
    const BlockState state = blocks_.state(block);
    const bool is_unheld = state == BlockState::kFree || state == BlockState::kCached;
    if (is_unheld && !is_claimed) ++effect.freed;
  }
  for (size_t i = 0; i < scratch_.size(); ++i) {
    ++holders_.at(scratch_[i]).count;
    ++blocks_.mutable_record(refs[i].block).references;
  }
  if (!status.ok()) return status;
  return effect;
}

absl::Status References::CheckHeld(const Session& session, std::span<const BlockRef> refs) const {
  for (size_t i = 0; i < refs.size(); ++i) {
    KVPOOL_RETURN_IF_ERROR(CheckHeld(session, refs[i], i));
  }
  return absl::OkStatus();
}

absl::Status References::CheckHeld(const Session& session, const BlockRef& ref,
                                   size_t index) const {
  const HolderSlot slot = holders_.Find(ref.block, session.slot);
  if (slot == kNoHolder || holders_.at(slot).count == 0) return NotHeldError(index, ref.block);
  const BlockRecord& record = blocks_.record(ref.block);
  if (IsStale(ref, record)) return StaleError(index, ref, record.generation);
  return absl::OkStatus();
}

absl::StatusOr<AddEffect> References::CheckAdd(const Session& session,
                                               std::span<const BlockRef> refs) {
  absl::Status status;
  size_t checked = 0;
  AddEffect effect;
  for (; checked < refs.size(); ++checked) {
    const BlockId block = refs[checked].block;
    status = CheckAddEntry(session, refs[checked], checked);
    if (!status.ok()) break;
    const bool is_cached = blocks_.state(block) == BlockState::kCached;
    BlockRecord& record = blocks_.mutable_record(block);
    ++record.references;
    if (record.has(BlockRecord::kAdding)) continue;
    if (holders_.Find(block, session.slot) != kNoHolder) continue;
    record.flags |= BlockRecord::kAdding;
    ++(is_cached ? effect.cached : effect.shared);
  }
  if (status.ok()) status = CheckSharers(effect.shared);
  for (size_t i = 0; i < checked; ++i) {
    BlockRecord& record = blocks_.mutable_record(refs[i].block);
    --record.references;
    record.flags = static_cast<uint16_t>(record.flags & ~BlockRecord::kAdding);
  }
  if (!status.ok()) return status;
  return effect;
}

absl::StatusOr<AddEffect> References::CheckAddFound(const Session& session,
                                                    std::span<const BlockId> blocks) const {
  AddEffect effect;
  size_t sharers = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const BlockRecord& record = blocks_.record(blocks[i]);
    if (record.references >= max_references_) return ReferencesError(i, blocks[i], record);
    if (blocks_.state(blocks[i]) == BlockState::kCached) {
      ++effect.cached;
    } else if (holders_.Find(blocks[i], session.slot) == kNoHolder) {
      ++effect.shared;
      if (record.first.session != kNoSession) ++sharers;
    }
  }
  KVPOOL_RETURN_IF_ERROR(CheckSharers(sharers));
  return effect;
}

absl::Status References::CheckSharers(size_t added) const {
  if (holders_.further_count() + added <= max_sharers_) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted, {.reason = Reason::kLimit},
                   absl::StrCat("blocks are shared ", holders_.further_count(), " times, at most ",
                                max_sharers_, " are possible, and this call adds ", added));
}

absl::Status References::CheckAddEntry(const Session& session, const BlockRef& ref,
                                       size_t index) const {
  const BlockRecord& record = blocks_.record(ref.block);
  const bool is_held =
      record.has(BlockRecord::kAdding) || holders_.Find(ref.block, session.slot) != kNoHolder;
  if (!is_held && ref.generation == Generation{}) {
    return EntryError(Reason::kNotHeld, index, ref.block,
                      "is not held by the session and no generation is given");
  }
  if (IsStale(ref, record)) return StaleError(index, ref, record.generation);
  const BlockState state = blocks_.state(ref.block);
  if (state != BlockState::kHeld && state != BlockState::kCached) {
    return EntryError(Reason::kNotLive, index, ref.block,
                      state == BlockState::kFree ? "is free" : "is quarantined");
  }
  const ErrorDetail entry = {.index = static_cast<uint32_t>(index), .block_id = ToIndex(ref.block)};
  if (record.tenant != session.tenant) {
    return MakeError(
        absl::StatusCode::kPermissionDenied, entry,
        absl::StrCat("entry ", index, ": block ", ToIndex(ref.block), " is another tenant's"));
  }
  if (record.references >= max_references_) return ReferencesError(index, ref.block, record);
  return absl::OkStatus();
}

BlockRef References::Take(Session& session, Fill fill, FillPlan& plan, const Cause& cause) {
  const BlockId block = blocks_.Take();
  BlockRecord& record = blocks_.mutable_record(block);
  const TenantSlot last = record.tenant;
  // A block that nobody ever had is as the device gave it: zero.
  const bool is_foreign = (last != session.tenant && !blocks_.is_first_owner(block)) ||
                          record.has(BlockRecord::kUnknown);
  tenants_.TakeBlock(session.tenant, last);
  record.tenant = session.tenant;
  CountHeld(session, holders_.Add(block, session.slot, 1, session.held));
  ++session.references;
  if (fill == Fill::kPoison) {
    plan.poison.push_back(block);
  } else if (fill == Fill::kZero || is_foreign) {
    plan.zero.push_back(block);
  }
  Record(block, TraceOperation::kAlloc, cause);
  return RefOf(block);
}

void References::Add(Session& session, BlockId block, TraceOperation operation,
                     const Cause& cause) {
  const bool was_cached = blocks_.state(block) == BlockState::kCached;
  blocks_.AddReference(block);
  const HolderSlot slot = holders_.Find(block, session.slot);
  if (slot != kNoHolder) {
    ++holders_.at(slot).count;
  } else {
    CountHeld(session, holders_.Add(block, session.slot, 1, session.held));
  }
  ++session.references;
  Record(block, operation, cause);
  if (!was_cached) return;
  tenants_.HoldBlock(session.tenant);
  if (cache_.is_old(block)) {
    cache_.Remove(block, cause.time);
    blocks_.ClearFindable(block);
    Record(block, TraceOperation::kEvict, cause);
  } else {
    cache_.OnHeld(block);
  }
}

BlockState References::Drop(Session& session, BlockId block, const Cause& cause) {
  const HolderSlot slot = holders_.Find(block, session.slot);
  KVPOOL_CHECK(slot != kNoHolder && holders_.at(slot).count > 0);
  --session.references;
  if (--holders_.at(slot).count == 0) DropHolder(session, slot);
  const BlockState state = blocks_.DropReferences(block, 1);
  Record(block, TraceOperation::kDec, cause);
  return Settle(block, state, /*was_held=*/true, cause);
}

void References::Release(Session& session, HolderSlot holder, bool claim, const Cause& cause) {
  const BlockId block = holders_.block(holder);
  const uint32_t count = holders_.at(holder).count;
  session.references -= count;
  if (claim && !blocks_.record(block).has(BlockRecord::kSealed)) {
    blocks_.AddClaim(block);
    holders_.at(holder).count = 0;
    if (!session.taken.empty()) session.taken.erase(holder);
    holders_.Move(holder, session.held, session.claims);
    --session.held_blocks;
  } else {
    DropHolder(session, holder);
  }
  const BlockState state = blocks_.DropReferences(block, count);
  Record(block, TraceOperation::kRelease, cause);
  Settle(block, state, /*was_held=*/true, cause);
}

HolderSlot References::Claim(Session& session, BlockId block) {
  blocks_.AddClaim(block);
  return holders_.Add(block, session.slot, 0, session.claims);
}

void References::EndClaim(Session& session, HolderSlot holder, const Cause& cause) {
  const BlockId block = holders_.block(holder);
  const bool was_held = blocks_.record(block).references > 0;
  holders_.Remove(holder, session.claims);
  Settle(block, blocks_.DropClaim(block), was_held, cause);
}

void References::SetFindable(BlockId block, const Cause& cause) {
  blocks_.SetFindable(block);
  Record(block, TraceOperation::kPublish, cause);
}

BlockState References::ClearFindable(BlockId block, const Cause& cause) {
  const BlockState before = blocks_.state(block);
  const BlockState state = blocks_.ClearFindable(block);
  if (before == BlockState::kCached) tenants_.HoldBlock(blocks_.record(block).tenant);
  Record(block, TraceOperation::kEvict, cause);
  return Settle(block, state, /*was_held=*/before != BlockState::kQuarantined, cause);
}

void References::ClearPinned(BlockId block, const Cause& cause) {
  const bool was_held = blocks_.record(block).references > 0;
  Settle(block, blocks_.ClearPinned(block), was_held, cause);
}

void References::SetKnown(BlockId block, bool is_known) {
  BlockRecord& record = blocks_.mutable_record(block);
  if (is_known) {
    record.flags = static_cast<uint16_t>(record.flags & ~BlockRecord::kUnknown);
  } else {
    record.flags |= BlockRecord::kUnknown;
  }
}

void References::Watch(std::span<const BlockRef> refs) {
  for (const BlockRef& ref : refs) {
    if (blocks_.has_record(ref.block)) {
      blocks_.mutable_record(ref.block).flags |= BlockRecord::kWatched;
    }
  }
}

void References::SetGuarantee(Session& session, uint32_t blocks) {
  unfilled_guarantees_ -= session.unfilled();
  session.guarantee = blocks;
  unfilled_guarantees_ += session.unfilled();
}

void References::ClearChanged() {
  blocks_.ClearChanged();
  changed_sessions_.clear();
}

void References::CountHeld(Session& session, HolderSlot slot) {
  if (!session.claimants.empty()) session.taken[slot] = session.member_ends;
  if (++session.held_blocks <= session.guarantee) --unfilled_guarantees_;
  NoteHeld(session);
}

void References::DropHolder(Session& session, HolderSlot slot) {
  holders_.Remove(slot, session.held);
  if (!session.taken.empty()) session.taken.erase(slot);
  if (session.held_blocks-- <= session.guarantee) ++unfilled_guarantees_;
  NoteHeld(session);
}

void References::NoteHeld(const Session& session) {
  if (session.guarantee == 0) return;
  if (changed_sessions_.empty() || changed_sessions_.back() != session.slot) {
    changed_sessions_.push_back(session.slot);
  }
}

BlockState References::Settle(BlockId block, BlockState state, bool was_held, const Cause& cause) {
  const TenantSlot tenant = blocks_.record(block).tenant;
  if (state == BlockState::kCached) {
    if (!cache_.is_old(block)) {
      tenants_.CacheBlock(tenant);
      cache_.OnUnheld(block);
      return state;
    }
    cache_.Remove(block, cause.time);
    state = blocks_.ClearFindable(block);
    Record(block, TraceOperation::kEvict, cause);
  }
  if (state == BlockState::kFree) {
    tenants_.FreeBlock(tenant);
    cache_.OnFree(block);
    if (!was_held) Record(block, TraceOperation::kFree, cause);
  } else if (state == BlockState::kQuarantined && was_held) {
    Record(block, TraceOperation::kQuarantine, cause);
  }
  return state;
}

void References::Record(BlockId block, TraceOperation operation, const Cause& cause) {
  if (trace_ == nullptr) return;
  trace_->Record(block, operation, blocks_.ref_count(block), cause);
}

}  // namespace kvpool
