#include "core/ledger/eviction/ghost_table.h"

#include <algorithm>
#include <list>

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool {
namespace {

Ghost GhostOf(uint64_t prefix, uint64_t last_use = 0, bool is_seen_again = false) {
  return {.prefix = prefix, .last_use = UseStamp{last_use}, .is_seen_again = is_seen_again};
}

bool IsSame(const std::optional<Ghost>& a, const std::optional<Ghost>& b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() == b.has_value();
  return a->prefix == b->prefix && a->last_use == b->last_use &&
         a->is_seen_again == b->is_seen_again;
}

}  // namespace

TEST_CASE("GhostTable gives back what was put, once") {
  GhostTable ghosts(/*limit=*/4);
  constexpr uint64_t kLatest = (uint64_t{1} << 63) - 1;
  CHECK_FALSE(ghosts.Put(GhostOf(UINT64_MAX, kLatest, true)).has_value());
  CHECK_FALSE(ghosts.Put(GhostOf(0, 1, false)).has_value());
  CHECK(ghosts.size() == 2);

  CHECK(IsSame(ghosts.Take(UINT64_MAX), GhostOf(UINT64_MAX, kLatest, true)));
  CHECK(IsSame(ghosts.Take(0), GhostOf(0, 1, false)));
  CHECK_FALSE(ghosts.Take(0).has_value());
  CHECK(ghosts.size() == 0);
}

TEST_CASE("GhostTable at its limit gives up the ghost put there first") {
  GhostTable ghosts(/*limit=*/2);
  ghosts.Put(GhostOf(1));
  ghosts.Put(GhostOf(2));
  CHECK(IsSame(ghosts.Put(GhostOf(3)), GhostOf(1)));
  CHECK_FALSE(ghosts.Take(1).has_value());
  CHECK(ghosts.Take(2).has_value());
  CHECK(ghosts.Take(3).has_value());
}

TEST_CASE("GhostTable puts a ghost in the place of one with its prefix") {
  GhostTable ghosts(/*limit=*/2);
  ghosts.Put(GhostOf(1, 10));
  ghosts.Put(GhostOf(2));
  CHECK(IsSame(ghosts.Put(GhostOf(1, 20)), GhostOf(1, 10)));
  CHECK(IsSame(ghosts.Put(GhostOf(3)), GhostOf(2)));
  CHECK(IsSame(ghosts.Take(1), GhostOf(1, 20)));
}

TEST_CASE("GhostTable gives up the ghosts put there first until it is down to a lower limit") {
  GhostTable ghosts(/*limit=*/4);
  for (uint64_t i = 1; i <= 4; ++i) ghosts.Put(GhostOf(i));
  CHECK_FALSE(ghosts.TakeExcess().has_value());
  ghosts.set_limit(2);
  CHECK(ghosts.size() == 4);
  CHECK(IsSame(ghosts.Put(GhostOf(5)), GhostOf(1)));
  CHECK(IsSame(ghosts.TakeExcess(), GhostOf(2)));
  CHECK(IsSame(ghosts.TakeExcess(), GhostOf(3)));
  CHECK_FALSE(ghosts.TakeExcess().has_value());
  CHECK(ghosts.size() == 2);
}

TEST_CASE("GhostTable with a limit of 0 remembers nothing") {
  GhostTable ghosts(/*limit=*/0);
  CHECK(IsSame(ghosts.Put(GhostOf(1)), GhostOf(1)));
  CHECK(ghosts.size() == 0);
}

TEST_CASE("GhostTable takes 32 bytes a ghost, and none before there are any") {
  constexpr uint32_t kGhosts = 100'000;
  GhostTable ghosts(kGhosts);
  CHECK(ghosts.size_bytes() == 0);
  for (uint64_t i = 0; i < 3 * kGhosts; ++i) ghosts.Put(GhostOf(i * i));
  CHECK(ghosts.size() == kGhosts);
  // The last page of each array may be all but empty, and pages have their pointers.
  CHECK(ghosts.size_bytes() <= 32 * (kGhosts + 1'024) + 4'096);
}

TEST_CASE("GhostTable agrees with a list over random calls") {
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  for (uint32_t run = 0; run < 20; ++run) {
    uint32_t limit = 1 + random.Below(300);
    const uint32_t prefixes = 1 + random.Below(4 * limit);
    GhostTable ghosts(limit);
    std::list<Ghost> model;
    const auto take = [&model](uint64_t prefix) {
      std::optional<Ghost> taken;
      const auto found = std::ranges::find(model, prefix, &Ghost::prefix);
      if (found == model.end()) return taken;
      taken = *found;
      model.erase(found);
      return taken;
    };
    for (int step = 0; step < 3'000; ++step) {
      CAPTURE(seed, run, step);
      const uint64_t prefix = random.Below(prefixes) * uint64_t{0x0123456701234567};
      if (random.OneIn(100)) {
        limit = 1 + random.Below(300);
        ghosts.set_limit(limit);
      }
      if (random.OneIn(4)) {
        REQUIRE(IsSame(ghosts.TakeExcess(),
                       model.size() > limit ? take(model.front().prefix) : std::nullopt));
      }
      if (random.OneIn(3)) {
        REQUIRE(IsSame(ghosts.Take(prefix), take(prefix)));
      } else {
        const Ghost ghost = GhostOf(prefix, random.Next() >> 1, random.OneIn(2));
        std::optional<Ghost> dropped = take(prefix);
        if (!dropped.has_value() && model.size() >= limit) dropped = take(model.front().prefix);
        model.push_back(ghost);
        REQUIRE(IsSame(ghosts.Put(ghost), dropped));
      }
      REQUIRE(ghosts.size() == model.size());
    }
  }
}

}  // namespace kvpool
