#include "client/cli/replay/simulation.h"

#include <chrono>
#include <memory>
#include <vector>

#include "client/cli/replay/optimum.h"
#include "core/ledger/eviction/leaf_lru.h"
#include "core/ledger/eviction/learned.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"
#include "tests/unit/replay/generated_trace.h"
#include "tests/unit/replay/plain_cache.h"

namespace kvpool::replay {
namespace {

using Outcome = Simulation::Outcome;
using Numbers = std::vector<uint64_t>;

constexpr uint32_t kLongest = 30;  // More than any request here has.

TimePoint At(int64_t seconds) { return TimePoint(std::chrono::seconds(seconds)); }

bool Is(const Outcome& outcome, size_t hits, size_t evicted) {
  return outcome.hit_blocks == hits && outcome.evicted_blocks == evicted;
}

std::unique_ptr<EvictionPolicy> MakePolicy(EvictionPolicyName name, uint32_t num_blocks) {
  if (name == EvictionPolicyName::kLeafLru) return std::make_unique<LeafLru>();
  return std::make_unique<Learned>(num_blocks);
}

}  // namespace

TEST_CASE("Simulation finds the leading blocks of a request that are cached") {
  Simulation simulation(EvictionPolicyName::kLeafLru, /*capacity=*/10, kLongest);
  CHECK(Is(simulation.Run(Numbers{1, 2, 3}, At(1), false), 0, 0));
  CHECK(Is(simulation.Run(Numbers{1, 2, 3, 4}, At(2), false), 3, 0));
  CHECK(Is(simulation.Run(Numbers{1, 5, 3}, At(3), false), 1, 0));
  CHECK(Is(simulation.Run(Numbers{2, 3}, At(4), false), 0, 0));
  CHECK(Is(simulation.Run(Numbers{}, At(5), false), 0, 0));
  CHECK(simulation.cached_count() == 8);
}

TEST_CASE("Simulation evicts after a request, tails first, its own too") {
  Simulation simulation(EvictionPolicyName::kLeafLru, /*capacity=*/3, kLongest);
  // Longer than the capacity: its own tail goes.
  CHECK(Is(simulation.Run(Numbers{1, 2, 3, 4, 5}, At(1), false), 0, 2));
  CHECK(Is(simulation.Run(Numbers{9}, At(2), false), 0, 1));
  CHECK(Is(simulation.Run(Numbers{1, 2, 3}, At(3), false), 2, 1));
  CHECK(Is(simulation.Run(Numbers{9}, At(4), false), 0, 1));
  CHECK(simulation.cached_count() == 3);
}

TEST_CASE("Simulation with a capacity of 0 keeps nothing") {
  Simulation simulation(EvictionPolicyName::kLearned, /*capacity=*/0, /*longest_request=*/2);
  CHECK(Is(simulation.Run(Numbers{1, 2}, At(1), false), 0, 2));
  CHECK(Is(simulation.Run(Numbers{1, 2}, At(2), false), 0, 2));
}

TEST_CASE("Simulation goes on after a pause of any length") {
  Simulation simulation(EvictionPolicyName::kLearned, /*capacity=*/4, kLongest);
  CHECK(Is(simulation.Run(Numbers{1, 2}, At(1), false), 0, 0));
  CHECK(Is(simulation.Run(Numbers{1, 2}, At(1'000'000'000), false), 2, 0));
}

TEST_CASE("Simulation evicts first what was hinted as done") {
  Simulation simulation(EvictionPolicyName::kLearned, /*capacity=*/4, kLongest);
  simulation.Run(Numbers{1, 2}, At(1), false);
  simulation.Run(Numbers{3, 4}, At(2), true);
  simulation.Run(Numbers{5, 6}, At(3), false);
  CHECK(Is(simulation.Run(Numbers{1, 2}, At(4), false), 2, 0));
  CHECK(Is(simulation.Run(Numbers{3, 4}, At(5), false), 0, 2));
}

TEST_CASE("Simulation agrees with a plain prefix tree over generated traces") {
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  for (const auto name : {EvictionPolicyName::kLearned, EvictionPolicyName::kLeafLru}) {
    for (const uint32_t capacity : {0U, 40U, 300U}) {
      const Trace trace = test::GenerateTrace(random, /*request_count=*/1'000);
      Simulation simulation(name, capacity, /*longest_request=*/200);
      const auto policy = MakePolicy(name, capacity + 200);
      test::PlainCache model(*policy, capacity);
      for (size_t i = 0; i < trace.requests().size(); ++i) {
        CAPTURE(seed, capacity, i);
        const TraceRequest& request = trace.requests()[i];
        const bool is_done = random.OneIn(4);
        const auto outcome =
            simulation.Run(trace.blocks(request), TimePoint(request.time), is_done);
        const auto expected = model.Run(trace.blocks(request), TimePoint(request.time), is_done);
        REQUIRE(Is(outcome, expected.hit_blocks, expected.evicted_blocks));
      }
    }
  }
}

TEST_CASE("Policies find all there is in an unlimited cache, and never more than the optimum") {
  const uint64_t seed = test::Seed();
  CAPTURE(seed);
  test::Random random(seed);
  const Trace trace = test::GenerateTrace(random, /*request_count=*/2'000);
  const Optimum optimum(trace);
  const auto count_hits = [&trace](EvictionPolicyName name, uint32_t capacity) {
    Simulation simulation(name, capacity, /*longest_request=*/200);
    size_t hits = 0;
    for (const TraceRequest& request : trace.requests()) {
      hits += simulation.Run(trace.blocks(request), TimePoint(request.time), false).hit_blocks;
    }
    CHECK(simulation.cached_count() <= capacity);
    return hits;
  };
  const auto unlimited = static_cast<uint32_t>(optimum.unique_count());
  for (const uint32_t capacity : {50U, 300U, unlimited}) {
    const size_t leaf_lru_hits = count_hits(EvictionPolicyName::kLeafLru, capacity);
    const size_t learned_hits = count_hits(EvictionPolicyName::kLearned, capacity);
    const size_t best = optimum.CountHits(capacity);
    CAPTURE(capacity);
    CHECK(leaf_lru_hits <= best);
    CHECK(learned_hits <= best);
    // The pauses between turns are what there is to learn.
    CHECK(learned_hits >= leaf_lru_hits);
    if (capacity == unlimited) CHECK(leaf_lru_hits == best);
  }
}

}  // namespace kvpool::replay
