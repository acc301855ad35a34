#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/ledger/block_table.h"
#include "core/ledger/block_trace.h"
#include "core/ledger/holder_table.h"
#include "core/ledger/options.h"
#include "core/ledger/prefix_cache.h"
#include "core/ledger/session.h"
#include "core/ledger/tenant_table.h"

namespace kvpool {

// What dropping a list of references would do.
struct DropEffect {
  uint32_t let_go = 0;  // Blocks that the session would not hold any more.
  uint32_t freed = 0;   // Those of them that would be free or cached.
};

// What adding a list of references would do.
struct AddEffect {
  uint32_t cached = 0;  // Blocks that would be cached no more, but held.
  uint32_t shared = 0;  // Other blocks that the session does not hold yet.
};

// Which bytes of newly taken blocks must be written before anybody sees them.
struct FillPlan {
  std::vector<BlockId> zero;
  std::vector<BlockId> poison;

  bool is_empty() const { return zero.empty() && poison.empty(); }
};

// References is who holds, claims and pins which block: the counts of blocks, sessions and
// tenants, and the cache's, kept in step with each other, and the trace of what changed them.
//
// The Check functions say whether a whole list can be done, its entries as if one after the
// other; what they let pass, the others do entry by entry and cannot fail. Every id is in range.
class References {
 public:
  // `tenants` must outlive it.
  References(const LedgerOptions& options, TenantTable& tenants);

  References(const References&) = delete;
  References& operator=(const References&) = delete;

  // Errors: NOT_HELD and STALE_BLOCK, with the first such entry.
  absl::StatusOr<DropEffect> CheckDrop(const Session& session, std::span<const BlockRef> refs);
  absl::Status CheckHeld(const Session& session, std::span<const BlockRef> refs) const;
  // The same for the entry at `index` of a list.
  absl::Status CheckHeld(const Session& session, const BlockRef& ref, size_t index) const;
  // Errors: STALE_BLOCK, NOT_LIVE, NOT_HELD, PERMISSION_DENIED and LIMIT.
  absl::StatusOr<AddEffect> CheckAdd(const Session& session, std::span<const BlockRef> refs);
  // The same for findable blocks of the session's tenant, each once. Errors: LIMIT.
  absl::StatusOr<AddEffect> CheckAddFound(const Session& session,
                                          std::span<const BlockId> blocks) const;

  // Whether CheckAddFound lets any so many blocks pass.
  bool MayAddFound(size_t count) const {
    return blocks_.most_references() < max_references_ &&
           holders_.further_count() + count <= max_sharers_;
  }

  // Takes a free block for the session; adds to `plan` what `fill` asks for. Requires a free one.
  BlockRef Take(Session& session, Fill fill, FillPlan& plan, const Cause& cause);
  void Add(Session& session, BlockId block, TraceOperation operation, const Cause& cause);
  BlockState Drop(Session& session, BlockId block, const Cause& cause);

  // Of an ended session: ends all its references to the block of `holder`, one of `held`. With
  // `claim`, the block is claimed by it instead, unless it is sealed.
  void Release(Session& session, HolderSlot holder, bool claim, const Cause& cause);
  // Claims a block that is not sealed in the name of a session that has no holder on it.
  HolderSlot Claim(Session& session, BlockId block);
  void EndClaim(Session& session, HolderSlot holder, const Cause& cause);

  // The cache has, or has given up, its reference to the block.
  void SetFindable(BlockId block, const Cause& cause);
  BlockState ClearFindable(BlockId block, const Cause& cause);

  void SetPinned(BlockId block) { blocks_.SetPinned(block); }
  void ClearPinned(BlockId block, const Cause& cause);
  // Whether the block's bytes are what its tenant, or nobody, wrote.
  void SetKnown(BlockId block, bool is_known);
  // changed_blocks() tells of the next change to each of these.
  void Watch(std::span<const BlockRef> refs);
  const std::vector<BlockId>& changed_blocks() const { return blocks_.changed(); }
  // The sessions with guarantees that hold more or fewer blocks now.
  const std::vector<SessionSlot>& changed_sessions() const { return changed_sessions_; }
  // What changed is told no more.
  void ClearChanged();

  // A live session's part of the pool that nobody else can take.
  void SetGuarantee(Session& session, uint32_t blocks);
  uint64_t unfilled_guarantees() const { return unfilled_guarantees_; }

  uint32_t used_blocks(const Session& session) const {
    return tenants_.used_blocks(session.tenant);
  }
  BlockRef RefOf(BlockId block) const {
    return {.block = block, .generation = Generation{blocks_.record(block).generation}};
  }
  const BlockTable& blocks() const { return blocks_; }
  PrefixCache& cache() { return cache_; }
  const PrefixCache& cache() const { return cache_; }
  const HolderTable& holders() const { return holders_; }
  const TenantTable& tenants() const { return tenants_; }
  // Null unless tracing.
  const BlockTrace* trace() const { return trace_.get(); }

 private:
  absl::Status CheckAddEntry(const Session& session, const BlockRef& ref, size_t index) const;
  absl::Status CheckSharers(size_t added) const;
  void CountHeld(Session& session, HolderSlot slot);
  void DropHolder(Session& session, HolderSlot slot);
  void NoteHeld(const Session& session);
  // What follows from a block's having become `state`. Returns what it is then.
  BlockState Settle(BlockId block, BlockState state, bool was_held, const Cause& cause);
  void Record(BlockId block, TraceOperation operation, const Cause& cause);

  const uint32_t max_references_;  // To one block.
  const uint32_t max_sharers_;     // Beyond the first of each block.
  TenantTable& tenants_;
  BlockTable blocks_;
  HolderTable holders_;
  PrefixCache cache_;
  std::unique_ptr<BlockTrace> trace_;
  uint64_t unfilled_guarantees_ = 0;
  std::vector<SessionSlot> changed_sessions_;
  std::vector<HolderSlot> scratch_;  // Of a Check, kept for its capacity.
};

}  // namespace kvpool
