#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/ledger/eviction/age_bins.h"

namespace kvpool {

// GittinsIndex says what keeping a block of some age is worth: the most uses a second of keeping
// it that one can expect, over all the ages up to which one could decide to keep it.
//
// At a bin's begin it is the greatest, over the bins e from there on, of P / E, where P is the
// chance that a block alive there is used again by the end of e, and E the time that takes in the
// mean, in the middle of a bin, where it is not the whole time to the end of e. Inside a bin it
// runs straight from its value at the begin to that at the next bin's; in the last it stays.
class GittinsIndex {
 public:
  // `hazards` are chances by bin, as ReuseHistogram has them.
  explicit GittinsIndex(const std::array<double, AgeBins::kCount>& hazards);

  // Requires an age in that bin.
  double At(size_t bin, int64_t age_ms) const {
    const Piece& piece = pieces_[bin];
    const auto age_in_bin = static_cast<double>(age_ms - AgeBins::begin_ms(bin));
    return std::max(piece.value + piece.slope * age_in_bin, piece.least);
  }
  // The least that it is in the bin, at one end or the other.
  double Least(size_t bin) const { return pieces_[bin].least; }

 private:
  struct Piece {
    double value = 0;  // At the bin's begin.
    double slope = 0;  // A millisecond.
    double least = 0;  // Rounding makes a value no less than both ends'.
  };
  std::array<Piece, AgeBins::kCount> pieces_{};
};

}  // namespace kvpool
