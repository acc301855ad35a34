#include "core/ledger/eviction/learned.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace kvpool {
namespace {

constexpr uint64_t kGhostsPerBlock = 4;
constexpr uint64_t kRequestsPerIndex = 50;
constexpr uint64_t kRequestsPerHalving = 2'000;

uint32_t GhostLimit(uint64_t block_count) {
  block_count = std::clamp<uint64_t>(block_count, 1, (UINT32_MAX - 1) / kGhostsPerBlock);
  return static_cast<uint32_t>(kGhostsPerBlock * block_count);
}

}  // namespace

Learned::Learned(uint32_t capacity)
    : ghosts_(GhostLimit(capacity)),
      indices_{GittinsIndex(histograms_[0].Hazards(0)), GittinsIndex(histograms_[1].Hazards(0))} {
  KVPOOL_CHECK(capacity > 0);
  SortBins();
}

void Learned::AddBlock(BlockId block, TenantSlot tenant, uint64_t prefix, TimePoint now) {
  BlockNote& note = notes_.Make(ToIndex(block));
  KVPOOL_CHECK(!note.is_known && tenant != kNoTenant);
  clock_.Advance(now);
  note = {.last_use = clock_.Stamp(), .prefix = prefix, .tenant = tenant, .is_known = true};
  ++known_count_;
  if (const std::optional<Ghost> ghost = ghosts_.Take(prefix); ghost.has_value()) {
    EndByReuse(ghost->is_seen_again, ghost->last_use);
    note.is_seen_again = true;
    note.group = CandidateGroup::kSeenAgain;
  }
  histogram(note.is_seen_again).BeginUse(clock_.now_ms());
}

void Learned::UseBlock(BlockId block, TimePoint now) {
  KVPOOL_CHECK(notes_[ToIndex(block)].is_known);
  clock_.Advance(now);
  candidates_.Update(block, [this](BlockNote& note) {
    const UseStamp previous_use = std::exchange(note.last_use, clock_.Stamp());
    EndByReuse(note.is_seen_again, previous_use);
    histogram(/*is_seen_again=*/true).BeginUse(clock_.now_ms());
    note.is_seen_again = true;
    note.group = CandidateGroup::kSeenAgain;
  });
}

void Learned::AddCandidate(BlockId block) { candidates_.Add(block); }

void Learned::RemoveCandidate(BlockId block) { candidates_.Remove(block); }

void Learned::AddHeldLeaf(BlockId block) { candidates_.Add(block, LeafKind::kHeldLeaf); }

void Learned::RemoveHeldLeaf(BlockId block) { candidates_.Remove(block, LeafKind::kHeldLeaf); }

void Learned::HintDone(BlockId block) {
  KVPOOL_CHECK(notes_[ToIndex(block)].is_known);
  candidates_.Update(block, [](BlockNote& note) { note.group = CandidateGroup::kDone; });
}

void Learned::ForgetEvicted(BlockId block, TimePoint now) {
  const BlockNote note = notes_[ToIndex(block)];
  clock_.Advance(now);
  const std::optional<Ghost> lost = ghosts_.Put(
      {.prefix = note.prefix, .last_use = note.last_use, .is_seen_again = note.is_seen_again});
  if (lost.has_value()) EndOutOfSight(lost->is_seen_again, lost->last_use);
  // One more, so that they become fewer where the limit has.
  const std::optional<Ghost> excess = ghosts_.TakeExcess();
  if (excess.has_value()) EndOutOfSight(excess->is_seen_again, excess->last_use);
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
  known_count_sum_ += known_count_;
  if (request_count_ % kRequestsPerHalving == 0) {
    for (ReuseHistogram& histogram : histograms_) histogram.Halve(clock_.now_ms());
  }
  if (request_count_ % kRequestsPerIndex == 0) RenewIndices();
}

void Learned::RenewIndices() {
  for (size_t i = 0; i < kClassCount; ++i) {
    indices_[i] = GittinsIndex(histograms_[i].Hazards(clock_.now_ms()));
  }
  SortBins();
  // Of a pool that its users hold most of, less is cached than its blocks.
  ghosts_.set_limit(GhostLimit(known_count_sum_ / kRequestsPerIndex));
  known_count_sum_ = 0;
}

std::optional<BlockId> Learned::Choose(TenantSlot tenant, TimePoint now) {
  clock_.Advance(now);
  const BlockId done = candidates_.Oldest(tenant, CandidateGroup::kDone);
  if (done != kNoBlock) return done;
  std::array<BlockId, kClassCount> oldest{};
  std::array<int64_t, kClassCount> greatest_age_ms{};
  for (size_t i = 0; i < kClassCount; ++i) {
    oldest[i] = candidates_.Oldest(tenant, static_cast<CandidateGroup>(i));
    greatest_age_ms[i] = oldest[i] == kNoBlock ? -1 : AgeMs(oldest[i]);
  }
  BlockId chosen = kNoBlock;
  double least_worth = 0;
  for (const ClassBin& next : bins_by_worth_) {
    if (greatest_age_ms[next.class_index] < AgeBins::begin_ms(next.bin)) continue;
    if (chosen != kNoBlock) {
      if (next.least_worth > least_worth) break;
      // Of equals the older goes, which is the one that there is.
      if (next.least_worth == least_worth && AgeMs(chosen) >= AgeBins::end_ms(next.bin)) continue;
    }
    const bool has_older = greatest_age_ms[next.class_index] >= AgeBins::end_ms(next.bin);
    const BlockId block = has_older ? OldestOfBin(tenant, next) : oldest[next.class_index];
    if (block == kNoBlock) continue;
    const double worth = indices_[next.class_index].At(next.bin, AgeMs(block));
    if (chosen == kNoBlock || worth < least_worth ||
        (worth == least_worth && LastUse(block) < LastUse(chosen))) {
      chosen = block;
      least_worth = worth;
    }
  }
  if (chosen == kNoBlock) return std::nullopt;
  return chosen;
}

std::optional<BlockId> Learned::ChooseHeldLeaf(TenantSlot tenant) const {
  const BlockId block = candidates_.Oldest(tenant, CandidateGroup::kHeldLeaf);
  if (block == kNoBlock) return std::nullopt;
  return block;
}

BlockId Learned::OldestOfBin(TenantSlot tenant, const ClassBin& class_bin) const {
  const auto group = static_cast<CandidateGroup>(class_bin.class_index);
  const int64_t after_ms = clock_.now_ms() - AgeBins::end_ms(class_bin.bin);
  const BlockId block = candidates_.Oldest(tenant, group, FirstStampOf(after_ms + 1));
  const bool is_in_bin = block != kNoBlock && AgeMs(block) >= AgeBins::begin_ms(class_bin.bin);
  return is_in_bin ? block : kNoBlock;
}

void Learned::SortBins() {
  for (size_t i = 0; i < bins_by_worth_.size(); ++i) {
    const size_t class_index = i / AgeBins::kCount;
    const size_t bin = i % AgeBins::kCount;
    bins_by_worth_[i] = {.least_worth = indices_[class_index].Least(bin),
                         .class_index = static_cast<uint8_t>(class_index),
                         .bin = static_cast<uint8_t>(bin)};
  }
  std::ranges::sort(bins_by_worth_, [](const ClassBin& a, const ClassBin& b) {
    if (a.least_worth != b.least_worth) return a.least_worth < b.least_worth;
    return a.bin != b.bin ? a.bin > b.bin : a.class_index < b.class_index;
  });
}

void Learned::Forget(BlockId block) {
  BlockNote& note = notes_[ToIndex(block)];
  KVPOOL_CHECK(note.is_known);
  candidates_.RemoveAny(block);
  note = {};
  --known_count_;
}

}  // namespace kvpool
