#include "core/ledger/eviction/learned.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace kvpool {
namespace {

constexpr uint64_t kGhostsPerBlock = 4;
constexpr uint64_t kRequestsPerIndex = 200;
constexpr uint64_t kRequestsPerHalving = 2'000;

uint32_t GhostLimit(uint32_t capacity) {
  return static_cast<uint32_t>(std::min<uint64_t>(kGhostsPerBlock * capacity, UINT32_MAX - 1));
}

}  // namespace

Learned::Learned(uint32_t capacity)
    : ghosts_(GhostLimit(capacity)),
      indices_{GittinsIndex(histograms_[0].Hazards(0)), GittinsIndex(histograms_[1].Hazards(0))} {
  KVPOOL_CHECK(capacity > 0);
}

void Learned::AddBlock(BlockId block, TenantSlot tenant, uint64_t prefix, TimePoint now) {
  BlockNote& note = notes_.Make(ToIndex(block));
  KVPOOL_CHECK(!note.is_known && tenant != kNoTenant);
  clock_.Advance(now);
  note = {.last_use = clock_.Stamp(), .prefix = prefix, .tenant = tenant, .is_known = true};
  if (const std::optional<Ghost> ghost = ghosts_.Take(prefix); ghost.has_value()) {
    EndByReuse(ghost->is_seen_again, ghost->last_use);
    note.is_seen_again = true;
    note.group = CandidateGroup::kSeenAgain;
  }
  histogram(note.is_seen_again).BeginUse(clock_.now_ms());
}

void Learned::UseBlock(BlockId block, TimePoint now) {
  BlockNote& note = notes_[ToIndex(block)];
  KVPOOL_CHECK(note.is_known);
  clock_.Advance(now);
  if (note.is_candidate) candidates_.Remove(block);
  const UseStamp previous_use = std::exchange(note.last_use, clock_.Stamp());
  EndByReuse(note.is_seen_again, previous_use);
  histogram(/*is_seen_again=*/true).BeginUse(clock_.now_ms());
  note.is_seen_again = true;
  note.group = CandidateGroup::kSeenAgain;
  if (note.is_candidate) candidates_.Add(block);
}

void Learned::AddCandidate(BlockId block) {
  BlockNote& note = notes_[ToIndex(block)];
  KVPOOL_CHECK(note.is_known && !note.is_candidate);
  candidates_.Add(block);
  note.is_candidate = true;
}

void Learned::RemoveCandidate(BlockId block) {
  BlockNote& note = notes_[ToIndex(block)];
  KVPOOL_CHECK(note.is_candidate);
  candidates_.Remove(block);
  note.is_candidate = false;
}

void Learned::HintDone(BlockId block) {
  BlockNote& note = notes_[ToIndex(block)];
  KVPOOL_CHECK(note.is_known);
  if (note.is_candidate) candidates_.Remove(block);
  note.group = CandidateGroup::kDone;
  if (note.is_candidate) candidates_.Add(block);
}

void Learned::ForgetEvicted(BlockId block, TimePoint now) {
  const BlockNote note = notes_[ToIndex(block)];
  clock_.Advance(now);
  const std::optional<Ghost> lost = ghosts_.Put(
      {.prefix = note.prefix, .last_use = note.last_use, .is_seen_again = note.is_seen_again});
  if (lost.has_value()) EndOutOfSight(lost->is_seen_again, lost->last_use);
  Forget(block);
}

void Learned::ForgetRemoved(BlockId block, TimePoint now) {
  const BlockNote& note = notes_[ToIndex(block)];
  clock_.Advance(now);
  EndOutOfSight(note.is_seen_again, note.last_use);
  Forget(block);
}

void Learned::CountRequest(TimePoint now) {
  clock_.Advance(now);
  ++request_count_;
  if (request_count_ % kRequestsPerHalving == 0) {
    for (ReuseHistogram& histogram : histograms_) histogram.Halve(clock_.now_ms());
  }
  if (request_count_ % kRequestsPerIndex == 0) {
    for (size_t i = 0; i < kClassCount; ++i) {
      indices_[i] = GittinsIndex(histograms_[i].Hazards(clock_.now_ms()));
    }
  }
}

std::optional<BlockId> Learned::Choose(TenantSlot tenant, TimePoint now) {
  clock_.Advance(now);
  BlockId chosen = candidates_.Oldest(tenant, CandidateGroup::kDone);
  if (chosen != kNoBlock) return chosen;
  double least_value = 0;
  UseStamp chosen_use{};
  const auto compare = [&](CandidateGroup group, size_t bin, BlockId block) {
    const UseStamp last_use = notes_[ToIndex(block)].last_use;
    const double value = indices_[static_cast<size_t>(group)].At(bin, clock_.AgeMs(last_use));
    if (chosen != kNoBlock &&
        (value > least_value || (value == least_value && last_use > chosen_use))) {
      return;
    }
    chosen = block;
    chosen_use = last_use;
    least_value = value;
  };
  candidates_.ForEachBinHead(tenant, clock_.now_ms(), compare);
  if (chosen == kNoBlock) return std::nullopt;
  return chosen;
}

void Learned::Forget(BlockId block) {
  BlockNote& note = notes_[ToIndex(block)];
  KVPOOL_CHECK(note.is_known);
  if (note.is_candidate) candidates_.Remove(block);
  note = {};
}

}  // namespace kvpool
