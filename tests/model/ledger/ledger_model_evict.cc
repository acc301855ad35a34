#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

#include "tests/model/ledger/ledger_model.h"

namespace kvpool::test {

// Evicts for a call that takes so many new blocks, the tenant's own to keep its quota. `given`:
// those of them that are known.
void LedgerModel::MakeRoom(const std::string& tenant, uint32_t take,
                           std::span<const BlockId> given) {
  if (!IsExact()) EvictWhatShows();
  const uint32_t quota = state_.options.max_blocks_per_tenant;
  const auto used = [&] {
    uint32_t count = 0;
    for (const ModelState::Block& block : state_.blocks) {
      count += block.tenant == tenant && !block.is_free ? 1U : 0U;
    }
    return count;
  };
  while (complaint_.empty() && take > 0 && quota > 0 && used() + take > quota) {
    EvictOne(tenant, given);
  }
  while (complaint_.empty() && state_.CountBlocks(BlockState::kFree) < take) EvictOne({}, given);
}

void LedgerModel::EvictOne(const std::optional<std::string>& tenant,
                           std::span<const BlockId> given) {
  const std::vector<uint32_t> left = state_.Left(tenant);
  if (!left.empty()) {
    const uint32_t block = ChooseBySight(left, given);
    state_.blocks[block].is_left = false;
    Note(block, TraceOperation::kEvict);
    return FreeIfDone(block, /*is_ordered=*/false);
  }
  const std::vector<uint32_t> leaves = state_.Leaves(tenant, /*is_cached=*/true);
  if (leaves.empty()) {
    const std::vector<uint32_t> held = state_.Leaves(tenant, /*is_cached=*/false);
    if (held.empty()) return Complain("there is nothing to evict");
    return Unfind(held.front());
  }
  if (IsExact() && state_.options.eviction_policy == EvictionPolicyName::kLeafLru) {
    return Unfind(leaves.front());
  }
  std::vector<uint32_t> done;
  std::ranges::copy_if(leaves, std::back_inserter(done),
                       [this](uint32_t block) { return state_.blocks[block].is_done; });
  // It does not show when in a call a block became a leaf: one that was it before has to be there.
  const bool is_by_hint =
      IsExact() && state_.options.eviction_policy == EvictionPolicyName::kLearned &&
      std::ranges::any_of(done, [this](uint32_t block) { return done_before_.contains(block); });
  Unfind(ChooseBySight(is_by_hint ? done : leaves, given));
}

// Where it is not known when there was how much room, any leaf may have been evicted.
void LedgerModel::EvictWhatShows() {
  for (bool is_more = true; is_more;) {
    is_more = false;
    for (const bool is_cached : {true, false}) {
      for (const uint32_t block : state_.Leaves({}, is_cached)) {
        if (!ShowsEvicted(block)) continue;
        Unfind(block);
        is_more = true;
      }
    }
  }
}

// Whether a findable block is not that any more when the call is over.
bool LedgerModel::ShowsEvicted(uint32_t block) const {
  const BlockInfo& info = seen_->blocks[block];
  return info.generation != state_.blocks[block].generation || !info.published;
}

// Which of the choices the ledger made: best one that this grant shows.
uint32_t LedgerModel::ChooseBySight(const std::vector<uint32_t>& choices,
                                    std::span<const BlockId> given) const {
  const auto rank = [&](uint32_t block) {
    const BlockInfo& info = seen_->blocks[block];
    if (std::ranges::count(given, BlockId{block}) > 0) return 0;
    if (info.generation > state_.blocks[block].generation) {
      return IsNamedByAny(block, *seen_) ? 2 : 1;
    }
    return info.state == BlockState::kFree ? 3 : ShowsEvicted(block) ? 4 : 5;
  };
  return *std::ranges::min_element(choices, {}, rank);
}

// What a reset left goes in slices, as what ended sessions left.
void LedgerModel::FollowLeft() {
  for (const uint32_t block : state_.Left({})) {
    const BlockInfo& info = seen_->blocks[block];
    if (info.generation == state_.blocks[block].generation && info.ref_count > 0) continue;
    state_.blocks[block].is_left = false;
    Note(block, TraceOperation::kEvict);
    ++left_dropped_;
    FreeIfDone(block, /*is_ordered=*/false);
  }
}

}  // namespace kvpool::test
