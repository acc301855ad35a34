#include "core/ledger/sweep_due.h"

#include <algorithm>
#include <deque>

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool {
namespace {

TEST_CASE("A session whose answers name little more than it holds is not swept") {
  CHECK_FALSE(IsSweepDue(0, 4'096, 0));
  CHECK_FALSE(IsSweepDue(0, 4'096 + 2'000, 1'000));
}

TEST_CASE("Answers that are spent are swept before they name twice what they may") {
  // Each call names a block that is let go at once.
  uint64_t named = 0;
  uint64_t most = 0;
  for (int call = 0; call < 100'000; ++call) {
    most = std::max(most, named + 1);
    named = IsSweepDue(named, named + 1, /*held=*/0) ? 1 : named + 1;
  }
  CHECK(most <= 2 * 4'096 + 1);
}

TEST_CASE("A prefix found over and over costs few sweeps") {
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  CAPTURE(seed);
  // The latest 64 answers name much the same blocks: nothing is spent.
  std::deque<uint64_t> answers;
  uint64_t named = 0;
  uint64_t seen_by_sweeps = 0;
  uint64_t all_named = 0;
  for (int call = 0; call < 10'000; ++call) {
    answers.push_back(1'000 + random.Below(100));
    const uint64_t before = named;
    named += answers.back();
    all_named += answers.back();
    if (answers.size() > 64) {
      named -= answers.front();
      answers.pop_front();
    }
    if (IsSweepDue(before, named, /*held=*/1'100)) seen_by_sweeps += named;
  }
  CHECK(seen_by_sweeps < 4 * all_named);
}

}  // namespace
}  // namespace kvpool
