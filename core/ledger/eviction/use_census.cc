#include "core/ledger/eviction/use_census.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/check.h"

namespace kvpool {

template <typename Visit>
void UseCensus::ForEachCell(size_t level, int64_t now_tick, const Visit& visit) {
  const int64_t first = FirstTick(level, now_tick) >> level;
  const auto shift = static_cast<int>(static_cast<size_t>(first) % kCellsPerLevel);
  // Bit n stands for the n-th cell from the first on.
  for (uint64_t left = std::rotr(levels_[level].is_used, shift); left != 0; left &= left - 1) {
    const int64_t tick = (first + std::countr_zero(left)) * (int64_t{1} << level);
    if (!visit(tick, cell(level, tick))) return;
  }
}

void UseCensus::Add(int64_t now_ms) {
  MoveTo(now_ms);
  levels_[0].is_used |= BitOf(0, now_tick_);
  ++cell(0, now_tick_).count;
  ++reached_[0];
}

size_t UseCensus::Remove(int64_t time_ms, int64_t now_ms) {
  MoveTo(now_ms);
  const size_t bin = AgeBins::Of(now_ms - time_ms);
  const int64_t tick = time_ms >> kTickBits;
  const size_t level = LevelOf(tick, now_tick_);
  if (level == kLevelCount) {
    KVPOOL_CHECK(oldest_count_ > 0);
    --oldest_count_;
    return bin;
  }
  Cell& removed_from = cell(level, tick);
  KVPOOL_CHECK(removed_from.count > 0);
  CountUpTo(bin, removed_from.reached, 1);
  // Its cell is older than it is.
  for (size_t i = bin + 1; i <= removed_from.reached; ++i) --reached_[i];
  if (--removed_from.count == 0) {
    removed_from = {};
    levels_[level].is_used &= ~BitOf(level, tick);
  }
  return bin;
}

std::array<int64_t, AgeBins::kCount> UseCensus::TakeReached(int64_t now_ms) {
  MoveTo(now_ms);
  for (size_t level = 0; level < kLevelCount; ++level) {
    ForEachCell(level, now_tick_, [&](int64_t tick, Cell& aged) {
      const size_t bin = BinOf(level, tick, now_ms);
      CountUpTo(bin, aged.reached, aged.count);
      aged.reached = static_cast<uint8_t>(bin);
      return true;
    });
  }
  return std::exchange(reached_, {});
}

size_t UseCensus::LevelOf(int64_t tick, int64_t now_tick) {
  // All that is 64 cells old or older is above the level.
  const auto age = static_cast<uint64_t>(std::max<int64_t>(now_tick - tick, 0));
  auto level = static_cast<size_t>(std::bit_width(age / kCellsPerLevel));
  while (level < kLevelCount && tick < FirstTick(level, now_tick)) ++level;
  return std::min(level, kLevelCount);
}

size_t UseCensus::BinOf(size_t level, int64_t tick, int64_t now_ms) {
  const int64_t begin_ms = (tick >> level) * (int64_t{1} << level << kTickBits);
  return AgeBins::Of(std::max<int64_t>(now_ms - begin_ms, 0));
}

void UseCensus::MoveTo(int64_t now_ms) {
  const int64_t now_tick = now_ms >> kTickBits;
  const int64_t old_tick = std::exchange(now_tick_, now_tick);
  if (now_tick == old_tick) return;
  // The levels where anything can have got too old, from the highest down: each has room for what
  // comes from below once its own has moved on.
  size_t level = 0;
  while (level < kLevelCount && now_tick >> (level + 1) != old_tick >> (level + 1)) ++level;
  while (level-- > 0) {
    const int64_t first_tick = FirstTick(level, now_tick);
    ForEachCell(level, old_tick, [&](int64_t tick, Cell& /*aged*/) {
      if (tick < first_tick) MoveCell(level, tick, now_ms);
      return tick < first_tick;
    });
  }
}

void UseCensus::MoveCell(size_t level, int64_t tick, int64_t now_ms) {
  const Cell aged = std::exchange(cell(level, tick), {});
  levels_[level].is_used &= ~BitOf(level, tick);
  const size_t to = LevelOf(tick, now_tick_);
  if (to == kLevelCount) {
    CountUpTo(AgeBins::kCount - 1, aged.reached, aged.count);
    oldest_count_ += aged.count;
    return;
  }
  const size_t bin = BinOf(to, tick, now_ms);
  Cell& joined = cell(to, tick);
  CountUpTo(bin, joined.reached, joined.count);
  CountUpTo(bin, aged.reached, aged.count);
  joined.count += aged.count;
  joined.reached = static_cast<uint8_t>(bin);
  levels_[to].is_used |= BitOf(to, tick);
}

void UseCensus::CountUpTo(size_t bin, size_t reached, int64_t count) {
  for (size_t i = reached + 1; i <= bin; ++i) reached_[i] += count;
}

}  // namespace kvpool
