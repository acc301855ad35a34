// What workers and a daemon do under faults, by the million steps, on a clock and a network of the
// test's own. To replay a failure, set KVPOOL_TEST_SEED to the seed that it prints.
#include <chrono>
#include <iostream>

#include <spdlog/spdlog.h>

#include "tests/simulation/shrink.h"
#include "tests/simulation/world.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool::simulation {
namespace {

TEST_CASE("Workers and the daemon keep their promises under faults") {
  spdlog::set_level(spdlog::level::off);
  uint64_t steps = 0;
  for (uint64_t seed = test::Seed(); steps < KVPOOL_SIMULATION_STEPS; ++seed) {
    // Also of a check that ends the process.
    CAPTURE(seed, steps);
    const Plan plan = MakePlan(seed);
    const Outcome outcome = RunPlan(plan);
    steps += outcome.steps;
    if (outcome.failure.empty()) continue;
    const Plan shrunk = Shrink(plan);
    const Outcome again = RunPlan(shrunk, /*is_traced=*/true);
    // Not by Catch, which breaks its lines.
    std::cerr << ToText(shrunk) << again.trace << again.failure << "\n";
    FAIL(outcome.failure);
  }
  SUCCEED();
}

TEST_CASE("A simulation of the same seed takes the same course") {
  spdlog::set_level(spdlog::level::off);
  for (uint64_t seed = test::Seed(); seed < test::Seed() + 20; ++seed) {
    CAPTURE(seed);
    const Plan plan = MakePlan(seed);
    const Outcome first = RunPlan(plan);
    const Outcome second = RunPlan(plan);
    CHECK(first.steps == second.steps);
    CHECK(first.digest == second.digest);
  }
}

}  // namespace
}  // namespace kvpool::simulation
