#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/ids.h"
#include "core/ledger/eviction/block_note.h"
#include "core/ledger/eviction/recency_tree.h"
#include "core/ledger/slots.h"

namespace kvpool {

// Candidates keeps the blocks that may be chosen, by group and last use: those of all tenants in
// one order, and those of each tenant in one of its own. Every call takes time logarithmic in the
// candidates, however many tenants there are.
class Candidates {
 public:
  // `notes` must outlive it.
  explicit Candidates(BlockNotes& notes) : notes_(notes) {}

  Candidates(const Candidates&) = delete;
  Candidates& operator=(const Candidates&) = delete;

  // Makes a known block, which is of no kind, one of `kind`; or one of that kind of none. Between
  // the two, what the block's note says of its last use, tenant and group changes by Update alone.
  void Add(BlockId block, LeafKind kind = LeafKind::kCandidate);
  void Remove(BlockId block, LeafKind kind = LeafKind::kCandidate);
  // The same for whatever kind it is of.
  void RemoveAny(BlockId block);
  // Changes the note by `change(BlockNote&)`; the block stays of its kind, in its new place.
  template <typename Change>
  void Update(BlockId block, const Change& change) {
    BlockNote& note = notes_[ToIndex(block)];
    const LeafKind kind = note.kind;
    RemoveAny(block);
    change(note);
    if (kind != LeafKind::kNone) Add(block, kind);
  }

  // The candidate of the group that was used longest ago: the tenant's, or of all where `tenant`
  // is kNoTenant; of those whose stamp is at least `first`. kNoBlock where there is none.
  BlockId Oldest(TenantSlot tenant, CandidateGroup group, UseStamp first = UseStamp{}) const;

  // Allocated for orders: a few bytes a tenant that ever had a candidate.
  size_t size_bytes() const { return tenants_.capacity() * sizeof(Order); }

 private:
  using Order = std::array<RecencyTree, kCandidateGroupCount>;  // By group.

  BlockNotes& notes_;
  RecencyTrees trees_of_all_{notes_, CandidateOrder::kOfAll};
  RecencyTrees trees_of_tenants_{notes_, CandidateOrder::kOfTenant};
  Order all_;
  std::vector<Order> tenants_;  // By slot.
};

}  // namespace kvpool
