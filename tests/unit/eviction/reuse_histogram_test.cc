#include "core/ledger/eviction/reuse_histogram.h"

#include <cmath>

#include "tests/support/catch.h"

namespace kvpool {
namespace {

// The chance never to have been used again by the begin of each bin, of what begins.
double Survival(const std::array<double, AgeBins::kCount>& hazards, size_t bin) {
  double alive = 1;
  for (size_t i = 0; i < bin; ++i) alive *= 1 - hazards[i];
  return alive;
}

}  // namespace

TEST_CASE("ReuseHistogram begins with 30 % used again, evenly over the logarithm of the age") {
  ReuseHistogram histogram;
  const auto hazards = histogram.Hazards(0);
  CHECK(hazards[0] == 0);
  CHECK(hazards[1] == 0);  // It ends before a second.
  CHECK(std::abs(Survival(hazards, AgeBins::kCount) - 0.7) < 1e-6);
  for (size_t bin = 4; AgeBins::begin_ms(bin) < 50 * 60 * 1'000; ++bin) {
    const double seconds = static_cast<double>(AgeBins::begin_ms(bin)) / 1'000;
    CHECK(std::abs(Survival(hazards, bin) - (1 - 0.3 * std::log(seconds) / std::log(3'000))) <
          1e-4);
  }
}

TEST_CASE("ReuseHistogram learns in which bin uses end by another") {
  ReuseHistogram histogram;
  const auto before = histogram.Hazards(0);
  constexpr int kUses = 100'000;
  for (int i = 0; i < kUses; ++i) histogram.BeginUse(0);
  // A quarter is used again 2 s later, and another goes out of sight.
  for (int i = 0; i < kUses / 4; ++i) histogram.EndByReuse(0, 2'000);
  for (int i = 0; i < kUses / 4; ++i) histogram.EndOutOfSight(0, 2'000);
  const auto hazards = histogram.Hazards(10'000);
  const size_t bin = AgeBins::Of(2'000);
  CHECK(std::abs(hazards[bin] - 0.25) < 0.001);
  CHECK(hazards[bin - 1] < before[bin - 1] / 100);
  CHECK(hazards[bin + 1] < before[bin + 1] / 100);
}

TEST_CASE("ReuseHistogram does not count a use for ages that it has not reached") {
  ReuseHistogram histogram;
  const auto before = histogram.Hazards(0);
  const size_t bin = AgeBins::Of(70'000);
  for (int i = 0; i < 1'000; ++i) histogram.BeginUse(0);
  for (int i = 0; i < 1'000; ++i) histogram.EndOutOfSight(0, 50'000);
  for (int i = 0; i < 1'000; ++i) histogram.BeginUse(50'000);
  CHECK(histogram.Hazards(100'000)[bin] == before[bin]);
}

TEST_CASE("ReuseHistogram lets the new outweigh the old once that is halved") {
  ReuseHistogram histogram;
  const size_t bin = AgeBins::Of(2'000);
  const auto use_again = [&histogram](int64_t use_ms, int count) {
    for (int i = 0; i < count; ++i) histogram.BeginUse(use_ms);
    for (int i = 0; i < count; ++i) histogram.EndByReuse(use_ms, use_ms + 2'000);
  };
  const auto lose = [&histogram](int64_t use_ms, int count) {
    for (int i = 0; i < count; ++i) histogram.BeginUse(use_ms);
    for (int i = 0; i < count; ++i) histogram.EndOutOfSight(use_ms, use_ms + 2'000);
  };
  use_again(0, 100'000);
  histogram.Halve(2'000);
  histogram.Halve(2'000);
  lose(10'000, 100'000);
  // 25,000 of 125,000.
  CHECK(std::abs(histogram.Hazards(12'000)[bin] - 0.2) < 0.001);
}

TEST_CASE("ReuseHistogram gives a chance of at most 1 where ends outlive a halving") {
  ReuseHistogram histogram;
  const size_t bin = AgeBins::Of(2'000);
  for (int i = 0; i < 100'000; ++i) histogram.BeginUse(0);
  histogram.Halve(2'000);
  for (int i = 0; i < 100'000; ++i) histogram.EndByReuse(0, 2'000);
  CHECK(histogram.Hazards(2'000)[bin] == 1);
}

}  // namespace kvpool
