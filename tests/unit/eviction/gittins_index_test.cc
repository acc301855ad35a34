#include "core/ledger/eviction/gittins_index.h"

#include <cmath>

#include "tests/support/catch.h"

namespace kvpool {
namespace {

double Seconds(size_t bin) { return static_cast<double>(AgeBins::begin_ms(bin)) / 1'000; }
bool IsNear(double a, double b) { return std::abs(a - b) <= 1e-12 * std::abs(b); }

}  // namespace

TEST_CASE("GittinsIndex is nothing where nothing is used again") {
  const GittinsIndex index({});
  for (size_t bin = 0; bin < AgeBins::kCount; ++bin) {
    CHECK(index.At(bin, AgeBins::begin_ms(bin)) == 0);
  }
}

TEST_CASE("GittinsIndex is the chance of use over the time that it takes") {
  std::array<double, AgeBins::kCount> hazards{};
  hazards[5] = 0.5;
  const GittinsIndex index(hazards);
  const double used = (Seconds(5) + Seconds(6)) / 2;
  // From the begin of bin 2: half at the middle of bin 5, half not by its end.
  const double time = 0.5 * (used - Seconds(2)) + 0.5 * (Seconds(6) - Seconds(2));
  CHECK(IsNear(index.At(2, AgeBins::begin_ms(2)), 0.5 / time));
  // After bin 5 there is nothing to wait for.
  CHECK(index.At(6, AgeBins::begin_ms(6)) == 0);
}

TEST_CASE("GittinsIndex waits for a later bin where that is worth more") {
  std::array<double, AgeBins::kCount> hazards{};
  hazards[0] = 0.001;
  hazards[1] = 1;
  const GittinsIndex index(hazards);
  const double middle_of_0 = Seconds(1) / 2;
  const double middle_of_1 = (Seconds(1) + Seconds(2)) / 2;
  CHECK(IsNear(index.At(0, 0), 1 / (0.001 * middle_of_0 + 0.999 * middle_of_1)));
}

TEST_CASE("GittinsIndex stops before a bin that is worth less") {
  std::array<double, AgeBins::kCount> hazards{};
  hazards[0] = 0.5;
  hazards[30] = 0.5;
  const GittinsIndex index(hazards);
  CHECK(IsNear(index.At(0, 0), 0.5 / (0.5 * Seconds(1) / 2 + 0.5 * Seconds(1))));
}

TEST_CASE("GittinsIndex runs straight through a bin, and stays in the last") {
  std::array<double, AgeBins::kCount> hazards{};
  hazards.fill(0.1);
  const GittinsIndex index(hazards);
  const int64_t begin = AgeBins::begin_ms(7);
  const int64_t length = AgeBins::begin_ms(8) - begin;
  const double quarter = static_cast<double>(length / 4) / static_cast<double>(length);
  const double at_begin = index.At(7, begin);
  const double at_end = index.At(8, AgeBins::begin_ms(8));
  CHECK(at_begin > at_end);
  CHECK(IsNear(index.At(7, begin + length / 4), at_begin + quarter * (at_end - at_begin)));

  CHECK(index.Least(7) == at_end);

  const size_t last = AgeBins::kCount - 1;
  CHECK(index.At(last, AgeBins::begin_ms(last)) > 0);
  CHECK(index.At(last, INT64_MAX / 2) == index.Least(last));
}

}  // namespace kvpool
