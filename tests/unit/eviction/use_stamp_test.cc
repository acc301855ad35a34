#include "core/ledger/eviction/use_stamp.h"

#include "tests/support/catch.h"

namespace kvpool {
namespace {

TimePoint At(int64_t time_ms) { return TimePoint(std::chrono::milliseconds(time_ms)); }

}  // namespace

TEST_CASE("UseClock gives uses of one millisecond rising stamps and one age") {
  UseClock clock;
  clock.Advance(At(500));
  const UseStamp first = clock.Stamp();
  clock.Advance(At(500) + std::chrono::microseconds(999));
  const UseStamp second = clock.Stamp();
  CHECK(first < second);
  CHECK(TimeMsOf(first) == 500);
  CHECK(TimeMsOf(second) == 500);

  clock.Advance(At(1'700));
  CHECK(clock.AgeMs(first) == 1'200);
  CHECK(clock.AgeMs(second) == 1'200);
}

TEST_CASE("UseClock never goes back") {
  UseClock clock;
  clock.Advance(At(500));
  const UseStamp first = clock.Stamp();
  clock.Advance(At(20));
  CHECK(clock.now_ms() == 500);
  CHECK(clock.Stamp() > first);
}

TEST_CASE("UseClock goes on to the next millisecond when the stamps of one are used up") {
  UseClock clock;
  clock.Advance(At(7));
  UseStamp last = clock.Stamp();
  for (int i = 1; i < 1 << kStampNumberBits; ++i) {
    const UseStamp next = clock.Stamp();
    if (next <= last) FAIL("the stamps do not rise");
    last = next;
  }
  CHECK(clock.now_ms() == 7);
  const UseStamp next = clock.Stamp();
  CHECK(next == FirstStampOf(8));
  CHECK(clock.now_ms() == 8);
  CHECK(clock.AgeMs(next) == 0);
}

TEST_CASE("A time before the clock's zero counts as zero") {
  UseClock clock;
  clock.Advance(At(-5));
  CHECK(clock.now_ms() == 0);
  CHECK(FirstStampOf(-5) == UseStamp{0});
}

}  // namespace kvpool
