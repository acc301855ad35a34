#include "client/cli/replay/done_hints.h"

#include <algorithm>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/random.h"
#include "tests/unit/replay/generated_trace.h"

namespace kvpool::replay {
namespace {

void Add(Trace& trace, const std::vector<uint64_t>& blocks) {
  trace.Add({.input_tokens = 512 * blocks.size()}, blocks);
}

}  // namespace

TEST_CASE("A request is done where no later one has its last block, after the same blocks") {
  Trace trace;
  Add(trace, {1, 2});
  Add(trace, {});
  Add(trace, {9, 2});
  Add(trace, {1, 2, 3});
  Add(trace, {1, 2, 4});
  Add(trace, {1, 2});
  const std::vector<bool> expected = {false, false, true, true, true, true};
  CHECK(ChooseDone(trace, 100) == expected);
  CHECK(ChooseDone(trace, 0) == std::vector<bool>(6, false));
}

TEST_CASE("About the percentage asked for are chosen, the same each time") {
  test::Random random(test::Seed());
  const Trace trace = test::GenerateTrace(random, /*request_count=*/4'000);
  const auto all = static_cast<double>(std::ranges::count(ChooseDone(trace, 100), true));
  const std::vector<bool> half = ChooseDone(trace, 50);
  const auto chosen = static_cast<double>(std::ranges::count(half, true));
  CHECK(chosen > 0.4 * all);
  CHECK(chosen < 0.6 * all);
  CHECK(ChooseDone(trace, 50) == half);
}

}  // namespace kvpool::replay
