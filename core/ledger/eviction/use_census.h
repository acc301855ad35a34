#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/ledger/eviction/age_bins.h"

namespace kvpool {

// UseCensus follows how old uses of blocks get that have not ended yet, and counts them each time
// they reach a new age bin. It takes a few KiB, however many uses there are.
//
// Uses of about one time share a cell: 16 ms while they are young, and as they age cells become
// one with their neighbours, so that a cell is never wider than a 31st of its age. A use counts as
// old as its cell's begin, by 1/31 too old at most, and 16 ms, until it ends: then what it was
// counted for too early is taken back.
//
// Times are in milliseconds, and must not fall.
class UseCensus {
 public:
  UseCensus() = default;
  UseCensus(const UseCensus&) = delete;
  UseCensus& operator=(const UseCensus&) = delete;

  // A use begins now.
  void Add(int64_t now_ms);
  // One of that time ends. Returns the bin of its age, exactly. Requires that there is one.
  size_t Remove(int64_t time_ms, int64_t now_ms);

  // By bin, how many uses reached it since the last call, less those taken back.
  std::array<int64_t, AgeBins::kCount> TakeReached(int64_t now_ms);

 private:
  // A tick is 16 ms. Cells of a level are 2^level ticks wide, begin at multiples of that, and are
  // at least 31 of their widths old. Of each level there are 64 at most; beyond the last level all
  // uses are in the last age bin.
  static constexpr int kTickBits = 4;
  static constexpr int64_t kLeastAge = 31;  // In cells.
  static constexpr size_t kCellsPerLevel = 64;
  static constexpr size_t kLevelCount = 17;
  static_assert((kLeastAge << kLevelCount << kTickBits) > AgeBins::begin_ms(AgeBins::kCount - 1));

  struct Cell {
    uint32_t count = 0;
    uint8_t reached = 0;  // The bin up to which its uses are counted.
  };
  struct Level {
    std::array<Cell, kCellsPerLevel> cells{};  // A ring, by the number of the cell.
    uint64_t is_used = 0;                      // A bit a cell.
  };

  // The first tick of those that are in this level, or a lower one.
  static constexpr int64_t FirstTick(size_t level, int64_t now_tick) {
    return ((now_tick >> (level + 1)) - kLeastAge) * (int64_t{1} << (level + 1));
  }
  // Where a tick's use is at that time: kLevelCount where it is beyond the last level.
  static size_t LevelOf(int64_t tick, int64_t now_tick);
  // The bin of the age of the level's cell that has that tick.
  static size_t BinOf(size_t level, int64_t tick, int64_t now_ms);

  Cell& cell(size_t level, int64_t tick) {
    return levels_[level].cells[static_cast<size_t>(tick >> level) % kCellsPerLevel];
  }
  static uint64_t BitOf(size_t level, int64_t tick) {
    return uint64_t{1} << (static_cast<size_t>(tick >> level) % kCellsPerLevel);
  }
  // Calls visit(tick, cell) with the cells in use of a level as it was at `now_tick`, the oldest
  // first; `tick` is the cell's first. Ends where that returns false.
  template <typename Visit>
  void ForEachCell(size_t level, int64_t now_tick, const Visit& visit);
  // Moves cells that got too old for their level.
  void MoveTo(int64_t now_ms);
  void MoveCell(size_t level, int64_t tick, int64_t now_ms);
  // Counts uses that were counted up to the bin `reached`.
  void CountUpTo(size_t bin, size_t reached, int64_t count);

  std::array<Level, kLevelCount> levels_{};
  uint64_t oldest_count_ = 0;  // Beyond the last level.
  int64_t now_tick_ = 0;       // As of which cells are where they belong.
  std::array<int64_t, AgeBins::kCount> reached_{};
};

}  // namespace kvpool
