#include <algorithm>
#include <cstdlib>
#include <string>

#include "tests/model/prefix/prefix_index_run.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"

// Random calls on a prefix index and on its model, all that is visible compared after each. To
// replay a failure set KVPOOL_TEST_SEED to the seed that it prints. For a long run set
// KVPOOL_MODEL_STEPS to the number of calls that each of the test cases makes, and
// KVPOOL_TEST_SEED to something fresh.
//
// KVPOOL_MODEL_DEFAULT_STEPS comes from CMakeLists.txt: the four test cases make a million calls.

namespace kvpool::test {
namespace {

constexpr uint32_t kStepsOfOneIndex = 10'000;

uint32_t Steps() {
  const char* text = std::getenv("KVPOOL_MODEL_STEPS");
  return text == nullptr ? KVPOOL_MODEL_DEFAULT_STEPS
                         : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}

// One index after another.
void RunIndexes(const PrefixRunOptions& options) {
  const uint64_t seed = Seed();
  uint32_t run = 0;
  for (uint32_t left = Steps(); left > 0; ++run) {
    const uint32_t steps = std::min(left, kStepsOfOneIndex);
    const std::string failure = PrefixIndexRun(options, seed + 1'000'003ULL * run).Run(steps);
    if (!failure.empty()) {
      CAPTURE(seed, run);
      FAIL(failure);
    }
    left -= steps;
  }
  CHECK(run > 0);
}

}  // namespace

TEST_CASE("The prefix index agrees with the model") { RunIndexes({}); }

TEST_CASE("The prefix index agrees with the model where blocks are few") {
  RunIndexes({.num_blocks = 4, .tenants = 2, .depth = 2});
}

TEST_CASE("The prefix index agrees with the model where chains are long and resets rare") {
  RunIndexes({.num_blocks = 25, .tenants = 1, .depth = 5, .steps_of_a_reset = 2'000});
}

TEST_CASE("The prefix index agrees with the model where resets are many") {
  RunIndexes({.num_blocks = 16, .tenants = 2, .depth = 3, .steps_of_a_reset = 6});
}

}  // namespace kvpool::test
