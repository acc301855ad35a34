#include "core/ledger/eviction/use_census.h"

#include <vector>

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool {
namespace {

using CountsByBin = std::array<int64_t, AgeBins::kCount>;

// One in each bin from the first to `bin`.
void AddUpTo(size_t bin, CountsByBin& counts) {
  for (size_t i = 0; i <= bin; ++i) ++counts[i];
}

}  // namespace

TEST_CASE("UseCensus counts a use in each bin that it reaches, once") {
  UseCensus census;
  census.Add(0);
  CHECK(census.TakeReached(0) == CountsByBin{1});
  CHECK(census.TakeReached(499) == CountsByBin{});
  CHECK(census.TakeReached(AgeBins::begin_ms(2)) == CountsByBin{0, 1, 1});
  CHECK(census.TakeReached(AgeBins::begin_ms(2)) == CountsByBin{});
}

TEST_CASE("UseCensus knows a use that ended no longer") {
  UseCensus census;
  census.Add(100);
  census.Add(100);
  CHECK(census.Remove(100, 200) == 0);
  CHECK(census.TakeReached(100 + AgeBins::begin_ms(1)) == CountsByBin{2, 1});
  CHECK(census.Remove(100, 100 + AgeBins::begin_ms(4)) == 4);
  CHECK(census.TakeReached(100'000'000) == CountsByBin{0, 0, 1, 1, 1});
}

TEST_CASE("UseCensus takes back what it counted too early") {
  UseCensus census;
  census.Add(15);
  // The cell, which begins at 0, is half a second old; the use is not.
  CHECK(census.TakeReached(500) == CountsByBin{1, 1});
  CHECK(census.Remove(15, 501) == 0);
  CHECK(census.TakeReached(501) == CountsByBin{0, -1});
}

TEST_CASE("UseCensus follows uses for as long as they go on") {
  UseCensus census;
  constexpr int64_t kYearMs = int64_t{366} * 24 * 3'600'000;
  census.Add(5);
  CountsByBin all{};
  all.fill(1);
  CHECK(census.TakeReached(kYearMs) == all);
  CHECK(census.Remove(5, 2 * kYearMs) == AgeBins::kCount - 1);
  CHECK(census.TakeReached(2 * kYearMs) == CountsByBin{});
}

TEST_CASE("UseCensus counts ended uses exactly, others a 31st of their age too early at most") {
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  for (uint32_t run = 0; run < 30; ++run) {
    UseCensus census;
    std::vector<int64_t> uses;
    CountsByBin of_ended{};
    CountsByBin sum{};
    const uint32_t max_step_ms = 1U << random.Below(24);
    int64_t now_ms = random.Below(1'000'000);
    for (int step = 0; step < 3'000; ++step) {
      if (random.OneIn(2)) now_ms += random.Below(max_step_ms);
      if (uses.empty() || random.OneIn(2)) {
        census.Add(now_ms);
        uses.push_back(now_ms);
      } else {
        std::swap(uses[random.Below(static_cast<uint32_t>(uses.size()))], uses.back());
        const size_t bin = AgeBins::Of(now_ms - uses.back());
        CAPTURE(seed, run, step);
        REQUIRE(census.Remove(uses.back(), now_ms) == bin);
        AddUpTo(bin, of_ended);
        uses.pop_back();
      }
      if (!random.OneIn(30)) continue;
      const CountsByBin taken = census.TakeReached(now_ms);
      CountsByBin least = of_ended;
      CountsByBin most = of_ended;
      for (const int64_t use : uses) {
        const int64_t age_ms = now_ms - use;
        AddUpTo(AgeBins::Of(age_ms), least);
        AddUpTo(AgeBins::Of(age_ms + age_ms / 31 + 16), most);
      }
      for (size_t bin = 0; bin < AgeBins::kCount; ++bin) {
        sum[bin] += taken[bin];
        CAPTURE(seed, run, step, bin);
        REQUIRE(sum[bin] >= least[bin]);
        REQUIRE(sum[bin] <= most[bin]);
      }
    }
  }
}

}  // namespace kvpool
