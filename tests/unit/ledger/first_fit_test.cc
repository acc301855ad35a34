#include "core/ledger/first_fit.h"

#include <map>

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool {
namespace {

TEST_CASE("FirstFit finds the first in line whose need is met") {
  FirstFit line;
  CHECK_FALSE(line.Find(9).has_value());
  for (const uint64_t number : {3U, 5U, 8U}) line.Add(number);
  CHECK_FALSE(line.Find(9).has_value());
  line.SetNeed(3, 4);
  line.SetNeed(5, 2);
  line.SetNeed(8, 3);
  CHECK(line.Find(4) == 3U);
  CHECK(line.Find(3) == 5U);
  CHECK_FALSE(line.Find(1).has_value());
}

TEST_CASE("FirstFit does not find what left or has no need any more") {
  FirstFit line;
  line.Add(1);
  line.Add(2);
  line.SetNeed(1, 0);
  line.SetNeed(2, 0);
  line.Remove(1);
  CHECK(line.Find(0) == 2U);
  line.SetNeed(2, std::nullopt);
  CHECK_FALSE(line.Find(9).has_value());
  CHECK_FALSE(line.is_empty());
  line.Remove(2);
  CHECK(line.is_empty());
}

TEST_CASE("FirstFit agrees with a map over random calls") {
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  FirstFit line;
  std::map<uint64_t, std::optional<uint32_t>> model;
  uint64_t last = 0;
  for (int step = 0; step < 20'000; ++step) {
    CAPTURE(seed, step);
    const auto any = model.lower_bound(random.Below(static_cast<uint32_t>(last) + 1));
    if (random.OneIn(3)) {
      last += 1 + random.Below(2);
      line.Add(last);
      model[last] = std::nullopt;
    } else if (any != model.end() && random.OneIn(model.size() > 40 ? 2 : 4)) {
      line.Remove(any->first);
      model.erase(any);
    } else if (any != model.end()) {
      any->second = random.Below(20);
      line.SetNeed(any->first, any->second);
    }
    const uint32_t room = random.Below(20);
    std::optional<uint64_t> expected;
    for (auto it = model.begin(); it != model.end() && !expected.has_value(); ++it) {
      if (it->second.has_value() && *it->second <= room) expected = it->first;
    }
    REQUIRE(line.Find(room) == expected);
    REQUIRE(line.is_empty() == model.empty());
  }
}

}  // namespace
}  // namespace kvpool
