#include "client/cli/replay/cache_simulation.h"

#include <chrono>
#include <memory>
#include <vector>

#include "client/cli/replay/optimum.h"
#include "core/ledger/eviction/leaf_lru.h"
#include "core/ledger/eviction/learned.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"
#include "tests/unit/replay/generated_trace.h"

namespace kvpool::replay {
namespace {

using Outcome = CacheSimulation::Outcome;
using BlockNames = std::vector<uint64_t>;

TimePoint At(int64_t seconds) { return TimePoint(std::chrono::seconds(seconds)); }

bool Is(const Outcome& outcome, size_t hits, size_t evicted) {
  return outcome.hit_blocks == hits && outcome.evicted_blocks == evicted;
}

size_t CountHits(const Trace& trace, EvictionPolicy& policy, size_t capacity) {
  CacheSimulation cache(policy, capacity);
  size_t hits = 0;
  for (const TraceRequest& request : trace.requests()) {
    hits += cache.Run(trace.blocks(request), TimePoint(request.time), /*is_done=*/false).hit_blocks;
    CHECK(cache.cached_count() <= capacity);
  }
  return hits;
}

}  // namespace

TEST_CASE("CacheSimulation finds the leading blocks of a request that are cached") {
  LeafLru policy;
  CacheSimulation cache(policy, /*capacity=*/10);
  CHECK(Is(cache.Run(BlockNames{1, 2, 3}, At(1), false), 0, 0));
  CHECK(Is(cache.Run(BlockNames{1, 2, 3, 4}, At(2), false), 3, 0));
  CHECK(Is(cache.Run(BlockNames{1, 5, 3}, At(3), false), 1, 0));
  CHECK(Is(cache.Run(BlockNames{2, 3}, At(4), false), 0, 0));
  CHECK(Is(cache.Run(BlockNames{}, At(5), false), 0, 0));
  CHECK(cache.cached_count() == 8);
}

TEST_CASE("CacheSimulation evicts after a request, tails first, its own too") {
  LeafLru policy;
  CacheSimulation cache(policy, /*capacity=*/3);
  // Longer than the capacity: its own tail goes.
  CHECK(Is(cache.Run(BlockNames{1, 2, 3, 4, 5}, At(1), false), 0, 2));
  CHECK(Is(cache.Run(BlockNames{9}, At(2), false), 0, 1));
  CHECK(Is(cache.Run(BlockNames{1, 2, 3}, At(3), false), 2, 1));
  CHECK(Is(cache.Run(BlockNames{9}, At(4), false), 0, 1));
  CHECK(cache.cached_count() == 3);
}

TEST_CASE("CacheSimulation with a capacity of 0 keeps nothing") {
  LeafLru policy;
  CacheSimulation cache(policy, /*capacity=*/0);
  CHECK(Is(cache.Run(BlockNames{1, 2}, At(1), false), 0, 2));
  CHECK(Is(cache.Run(BlockNames{1, 2}, At(2), false), 0, 2));
}

TEST_CASE("CacheSimulation evicts first what was hinted as done") {
  Learned policy(/*capacity=*/4);
  CacheSimulation cache(policy, /*capacity=*/4);
  cache.Run(BlockNames{1, 2}, At(1), false);
  cache.Run(BlockNames{3, 4}, At(2), true);
  cache.Run(BlockNames{5, 6}, At(3), false);
  CHECK(Is(cache.Run(BlockNames{1, 2}, At(4), false), 2, 0));
  CHECK(Is(cache.Run(BlockNames{3, 4}, At(5), false), 0, 2));
}

TEST_CASE("Policies find all there is in an unlimited cache, and never more than the optimum") {
  const uint64_t seed = test::Seed();
  CAPTURE(seed);
  test::Random random(seed);
  const Trace trace = test::GenerateTrace(random, /*request_count=*/2'000);
  const Optimum optimum(trace);
  for (const size_t capacity : {size_t{50}, size_t{300}, optimum.unique_count()}) {
    LeafLru leaf_lru;
    Learned learned(static_cast<uint32_t>(capacity));
    const size_t leaf_lru_hits = CountHits(trace, leaf_lru, capacity);
    const size_t learned_hits = CountHits(trace, learned, capacity);
    const size_t best = optimum.CountHits(capacity);
    CAPTURE(capacity);
    CHECK(leaf_lru_hits <= best);
    CHECK(learned_hits <= best);
    // The pauses between turns are what there is to learn.
    CHECK(learned_hits >= leaf_lru_hits);
    if (capacity == optimum.unique_count()) CHECK(leaf_lru_hits == best);
  }
}

}  // namespace kvpool::replay
