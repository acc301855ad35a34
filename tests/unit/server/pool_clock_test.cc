#include "server/pool_clock.h"

#include <chrono>

#include "tests/support/catch.h"

namespace kvpool::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

}  // namespace

TEST_CASE("PoolClock at rate 1 is steady_clock") {
  const PoolClock clock(1);
  const TimePoint before = steady_clock::now();
  const TimePoint now = clock.Now();
  CHECK(before <= now);
  CHECK(now <= steady_clock::now());
  CHECK(clock.ToSteady(now) == now);
}

TEST_CASE("PoolClock runs as many times as fast as steady_clock as it is told") {
  const TimePoint before = steady_clock::now();
  const PoolClock clock(1'000);
  const TimePoint after = steady_clock::now();
  while (steady_clock::now() < after + milliseconds(2)) {
  }
  const TimePoint read_after = steady_clock::now();
  const TimePoint now = clock.Now();
  const TimePoint read_before = steady_clock::now();
  // Rounding may take a nanosecond, a thousandfold.
  CHECK(now >= before + 1'000 * (read_after - after) - milliseconds(1));
  CHECK(now <= after + 1'000 * (read_before - before) + milliseconds(1));
}

TEST_CASE("PoolClock says when, by steady_clock, a time of its own comes") {
  const TimePoint before = steady_clock::now();
  const PoolClock clock(60);
  const TimePoint later = clock.ToSteady(clock.Now() + seconds(60));
  CHECK(later >= before + seconds(1) - milliseconds(1));
  CHECK(later <= steady_clock::now() + seconds(1) + milliseconds(1));
}

}  // namespace kvpool::server
