#include "core/layout/overflow.h"

#include "tests/support/catch.h"

namespace kvpool {
namespace {

constexpr uint64_t kMax = UINT64_MAX;

TEST_CASE("CheckedProduct multiplies up to 64 bits and no further") {
  CHECK(CheckedProduct({}) == 1U);
  CHECK(CheckedProduct({3, 5, 7}) == 105U);
  CHECK(CheckedProduct({1ULL << 32, 1ULL << 31}) == 1ULL << 63);
  CHECK(CheckedProduct({kMax, 1}) == kMax);
  CHECK_FALSE(CheckedProduct({1ULL << 32, 1ULL << 32}).has_value());
  CHECK_FALSE(CheckedProduct({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}).has_value());
}

TEST_CASE("CheckedSum adds up to 64 bits and no further") {
  CHECK(CheckedSum(kMax - 1, 1) == kMax);
  CHECK_FALSE(CheckedSum(kMax, 1).has_value());
}

TEST_CASE("CheckedAlignUp rounds up to 64 bits and no further") {
  CHECK(CheckedAlignUp(0, 256) == 0U);
  CHECK(CheckedAlignUp(1, 256) == 256U);
  CHECK(CheckedAlignUp(256, 256) == 256U);
  CHECK(CheckedAlignUp(257, 256) == 512U);
  CHECK(CheckedAlignUp(kMax - 255, 256) == kMax - 255);
  CHECK_FALSE(CheckedAlignUp(kMax - 254, 256).has_value());
}

}  // namespace
}  // namespace kvpool
