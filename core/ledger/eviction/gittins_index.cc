#include "core/ledger/eviction/gittins_index.h"

#include <algorithm>

namespace kvpool {
namespace {

double BeginSeconds(size_t bin) { return static_cast<double>(AgeBins::begin_ms(bin)) / 1000; }

double ValueAtBegin(const std::array<double, AgeBins::kCount>& hazards, size_t begin) {
  double best = 0;
  double alive = 1;    // The chance not to have been used again so far.
  double used = 0;     // That to have been.
  double seconds = 0;  // The time to the use, in the mean, for those that were.
  for (size_t bin = begin; bin < AgeBins::kCount; ++bin) {
    const double used_here = alive * hazards[bin];
    const double middle = (BeginSeconds(bin) + BeginSeconds(bin + 1)) / 2 - BeginSeconds(begin);
    used += used_here;
    seconds += used_here * middle;
    alive -= used_here;
    const double whole = BeginSeconds(bin + 1) - BeginSeconds(begin);
    best = std::max(best, used / (seconds + alive * whole));
  }
  return best;
}

}  // namespace

GittinsIndex::GittinsIndex(const std::array<double, AgeBins::kCount>& hazards) {
  for (size_t bin = AgeBins::kCount; bin-- > 0;) {
    const double value = ValueAtBegin(hazards, bin);
    pieces_[bin] = {.value = value, .slope = 0, .least = value};
    if (bin + 1 == AgeBins::kCount) continue;
    const int64_t length_ms = AgeBins::begin_ms(bin + 1) - AgeBins::begin_ms(bin);
    pieces_[bin].slope = (pieces_[bin + 1].value - value) / static_cast<double>(length_ms);
    pieces_[bin].least = std::min(value, pieces_[bin + 1].value);
  }
}

}  // namespace kvpool
