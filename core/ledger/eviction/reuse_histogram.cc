#include "core/ledger/eviction/reuse_histogram.h"

#include <algorithm>
#include <cmath>

namespace kvpool {
namespace {

constexpr double kPriorUses = 200;
constexpr double kPriorReuses = 0.3 * kPriorUses;
constexpr double kPriorFromMs = 1'000;
constexpr double kPriorToMs = 50 * 60 * 1'000;

// Of the prior's reuses, how many are in the bin: a multiple of 2^-20, because libraries differ in
// the last digits of a logarithm.
double PriorReuses(size_t bin) {
  const double from = std::max(static_cast<double>(AgeBins::begin_ms(bin)), kPriorFromMs);
  const double to = std::min(static_cast<double>(AgeBins::begin_ms(bin + 1)), kPriorToMs);
  if (from >= to) return 0;
  const double share = std::log(to / from) / std::log(kPriorToMs / kPriorFromMs);
  return std::round(std::ldexp(kPriorReuses * share, 20)) / (1 << 20);
}

}  // namespace

ReuseHistogram::ReuseHistogram() {
  double left = kPriorUses;
  for (size_t bin = 0; bin < AgeBins::kCount; ++bin) {
    reached_[bin] = left;
    reuses_[bin] = PriorReuses(bin);
    left -= reuses_[bin];
  }
}

void ReuseHistogram::Halve(int64_t now_ms) {
  CountReached(now_ms);
  for (double& count : reached_) count /= 2;
  for (double& count : reuses_) count /= 2;
}

std::array<double, AgeBins::kCount> ReuseHistogram::Hazards(int64_t now_ms) {
  CountReached(now_ms);
  std::array<double, AgeBins::kCount> hazards{};
  for (size_t bin = 0; bin < AgeBins::kCount; ++bin) {
    // A use that reached the bin before a halving and ended after it leaves more of its end.
    const bool is_certain = reuses_[bin] >= reached_[bin];
    if (reuses_[bin] > 0) hazards[bin] = is_certain ? 1 : reuses_[bin] / reached_[bin];
  }
  return hazards;
}

void ReuseHistogram::CountReached(int64_t now_ms) {
  const std::array<int64_t, AgeBins::kCount> reached = census_.TakeReached(now_ms);
  for (size_t bin = 0; bin < AgeBins::kCount; ++bin) {
    reached_[bin] += static_cast<double>(reached[bin]);
  }
}

}  // namespace kvpool
