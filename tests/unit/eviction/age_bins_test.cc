#include "core/ledger/eviction/age_bins.h"

#include <cmath>

#include "tests/support/catch.h"

namespace kvpool {

TEST_CASE("Age bins begin at 0 and half a second, and from there each is 1.35 times as long") {
  CHECK(AgeBins::begin_ms(0) == 0);
  CHECK(AgeBins::begin_ms(1) == 500);
  CHECK(AgeBins::begin_ms(2) == 675);
  CHECK(AgeBins::begin_ms(3) == 911);
  for (size_t bin = 2; bin <= AgeBins::kCount; ++bin) {
    const auto begin = static_cast<double>(AgeBins::begin_ms(bin));
    const auto before = static_cast<double>(AgeBins::begin_ms(bin - 1));
    CHECK(std::abs(begin / before - 1.35) < 0.003);
  }
}

TEST_CASE("An age is in the bin that begins last among those that begin no later") {
  for (size_t bin = 0; bin < AgeBins::kCount; ++bin) {
    CHECK(AgeBins::Of(AgeBins::begin_ms(bin)) == bin);
    CHECK(AgeBins::Of(AgeBins::end_ms(bin) - 1) == bin);
    CHECK(AgeBins::end_ms(bin) >= AgeBins::begin_ms(bin + 1));
  }
}

TEST_CASE("The last age bin takes all that is older") {
  CHECK(AgeBins::Of(AgeBins::begin_ms(AgeBins::kCount)) == AgeBins::kCount - 1);
  CHECK(AgeBins::Of(INT64_MAX) == AgeBins::kCount - 1);
}

}  // namespace kvpool
