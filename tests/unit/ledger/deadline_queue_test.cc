#include "core/ledger/deadline_queue.h"

#include <algorithm>
#include <map>

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool {
namespace {

TimePoint At(int64_t seconds) { return TimePoint{std::chrono::seconds(seconds)}; }

TEST_CASE("DeadlineQueue has the earliest deadline in front") {
  DeadlineQueue queue;
  CHECK_FALSE(queue.front().has_value());
  queue.Set({.time = At(3), .order = 1, .session = SessionSlot{0}});
  queue.Set({.time = At(1), .order = 2, .session = SessionSlot{1}});
  queue.Set({.time = At(2), .order = 3, .session = SessionSlot{2}});
  CHECK(queue.front()->session == SessionSlot{1});
  queue.Clear(SessionSlot{1});
  CHECK(queue.front()->session == SessionSlot{2});
  CHECK_FALSE(queue.time(SessionSlot{1}).has_value());
  CHECK(queue.time(SessionSlot{0}) == At(3));
}

TEST_CASE("DeadlineQueue moves a deadline instead of adding one") {
  DeadlineQueue queue;
  queue.Set({.time = At(1), .order = 1, .session = SessionSlot{0}});
  queue.Set({.time = At(2), .order = 2, .session = SessionSlot{1}});
  queue.Set({.time = At(3), .order = 1, .session = SessionSlot{0}});
  CHECK(queue.front()->session == SessionSlot{1});
  queue.Clear(SessionSlot{1});
  queue.Clear(SessionSlot{1});
  CHECK(queue.front()->time == At(3));
  queue.Clear(SessionSlot{0});
  CHECK_FALSE(queue.front().has_value());
}

TEST_CASE("DeadlineQueue takes equal deadlines by their order") {
  DeadlineQueue queue;
  queue.Set({.time = At(1), .order = 9, .session = SessionSlot{0}});
  queue.Set({.time = At(1), .order = 3, .session = SessionSlot{1}});
  queue.Set({.time = At(1), .order = 5, .session = SessionSlot{2}});
  CHECK(queue.front()->session == SessionSlot{1});
}

TEST_CASE("DeadlineQueue agrees with a map over random calls") {
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  DeadlineQueue queue;
  std::map<uint32_t, int64_t> model;  // Session to deadline.
  for (int step = 0; step < 10'000; ++step) {
    CAPTURE(seed, step);
    const uint32_t session = random.Below(20);
    if (random.OneIn(3)) {
      queue.Clear(SessionSlot{session});
      model.erase(session);
    } else {
      model[session] = random.Below(50);
      queue.Set({.time = At(model[session]), .order = session, .session = SessionSlot{session}});
    }
    const auto front = queue.front();
    REQUIRE(front.has_value() == !model.empty());
    if (model.empty()) continue;
    const auto first = std::ranges::min_element(
        model, {}, [](const auto& entry) { return std::pair(entry.second, entry.first); });
    REQUIRE(front->session == SessionSlot{first->first});
    REQUIRE(front->time == At(first->second));
  }
}

}  // namespace
}  // namespace kvpool
