#include "server/log_budget.h"

#include "tests/support/catch.h"

namespace kvpool::server {
namespace {

const TimePoint kStart{std::chrono::hours(1)};

// How many of `count` lines at `now` are taken.
uint32_t TakeMany(LogBudget& budget, TimePoint now, uint32_t count) {
  uint32_t taken = 0;
  for (uint32_t i = 0; i < count; ++i) taken += budget.Take(now).has_value() ? 1U : 0U;
  return taken;
}

TEST_CASE("A LogBudget takes a burst, then a line each interval, and counts those between") {
  LogBudget budget;
  CHECK(TakeMany(budget, kStart, LogBudget::kBurst + 7) == LogBudget::kBurst);
  CHECK(budget.Take(kStart + LogBudget::kInterval) == 7U);
  CHECK_FALSE(budget.Take(kStart + LogBudget::kInterval).has_value());
  CHECK(budget.Take(kStart + 2 * LogBudget::kInterval) == 1U);
  CHECK(TakeMany(budget, kStart + 5 * LogBudget::kInterval, 10) == 3);
}

TEST_CASE("A LogBudget that rests has its burst again, and no more") {
  LogBudget budget;
  CHECK(budget.Take(kStart) == 0U);
  CHECK(TakeMany(budget, kStart + std::chrono::hours(1), 1'000) == LogBudget::kBurst);
  CHECK(TakeMany(budget, kStart + std::chrono::hours(2), 1'000) == LogBudget::kBurst);
}

}  // namespace
}  // namespace kvpool::server
