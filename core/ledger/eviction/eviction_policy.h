#pragma once

#include <cstdint>
#include <optional>

#include "core/ids.h"
#include "core/ledger/slots.h"

namespace kvpool {

// EvictionPolicy chooses which cached block goes next. It never evicts: whoever asks does, and
// tells it.
//
// It is told what becomes of each findable block, from AddBlock to one of the two Forget calls,
// which of them are candidates, and that requests come. A candidate is a block that may go now: a
// leaf of the prefix tree that nobody holds. Time is what the calls say; it must not fall.
//
// No call looks through blocks or tenants: each takes constant time, or time logarithmic in the
// candidates where the set of candidates changes. The same calls lead to the same choices, on
// every platform. Not thread-safe.
class EvictionPolicy {
 public:
  EvictionPolicy() = default;
  virtual ~EvictionPolicy() = default;
  EvictionPolicy(const EvictionPolicy&) = delete;
  EvictionPolicy& operator=(const EvictionPolicy&) = delete;

  // The block became findable, which is its first use; it is no candidate. `prefix` stands for
  // its prefix key among evicted ones: equal keys have equal ones, others with luck do not.
  // Requires that the block is not known.
  virtual void AddBlock(BlockId block, TenantSlot tenant, uint64_t prefix, TimePoint now) = 0;
  // The block was found and is used again. The calls for the blocks of one request go from the
  // root on. All that follow require a known block.
  virtual void UseBlock(BlockId block, TimePoint now) = 0;

  // The block became a candidate, or is none any more. Both require that it changes.
  virtual void AddCandidate(BlockId block) = 0;
  virtual void RemoveCandidate(BlockId block) = 0;
  // The same for leaves that somebody holds, which are no candidates.
  virtual void AddHeldLeaf(BlockId block) = 0;
  virtual void RemoveHeldLeaf(BlockId block) = 0;

  // Nobody is expected to use the block again. Its next use takes the hint back.
  virtual void HintDone(BlockId block) = 0;

  // The block is findable no more, candidate, held leaf or neither: to make room, after which the
  // policy may remember its prefix; or for any other reason, after which it does not.
  virtual void ForgetEvicted(BlockId block, TimePoint now) = 0;
  virtual void ForgetRemoved(BlockId block, TimePoint now) = 0;

  // A request came: somebody looks for a prefix of at least one block, whatever is found.
  virtual void CountRequest(TimePoint now) = 0;

  // A hint: the block's next call comes soon. It makes what that looks at be on its way from
  // memory. Of any block.
  virtual void Prefetch(BlockId /*block*/) const {}

  // The candidate to evict next: of that tenant's, or of all where `tenant` is kNoTenant. Absent
  // where there is none. Asking changes no later choice.
  virtual std::optional<BlockId> Choose(TenantSlot tenant, TimePoint now) = 0;
  // The held leaf used longest ago, to be made unfindable where there is no candidate.
  virtual std::optional<BlockId> ChooseHeldLeaf(TenantSlot tenant) const = 0;
};

}  // namespace kvpool
