#include "tests/model/cache/cache_run.h"
#include "tests/support/catch.h"

namespace kvpool::test {
namespace {

constexpr int kPools = 20;

// Fresh pools, one after the other, so that none gets stuck in a corner.
void RunPools(const CacheRunOptions& options) {
  const uint64_t seed = Seed();
  Random random(seed);
  for (int pool = 0; pool < kPools; ++pool) {
    CacheRun run(options, random);
    for (int step = 0; step < KVPOOL_MODEL_DEFAULT_STEPS / kPools; ++step) {
      const std::string wrong = run.Step();
      if (wrong.empty()) continue;
      CAPTURE(seed, pool, step, run.call(), wrong);
      FAIL("the ledger and the model disagree");
    }
  }
  SUCCEED();
}

CacheRunOptions PoolOf(uint32_t num_blocks,
                       EvictionPolicyName policy = EvictionPolicyName::kLeafLru) {
  CacheRunOptions options;
  options.ledger.num_blocks = num_blocks;
  options.ledger.eviction_policy = policy;
  options.ledger.limits.max_logged_changes = 64;  // So few that slow watchers lose some.
  return options;
}

}  // namespace

TEST_CASE("The prefix cache agrees with the model") { RunPools(PoolOf(12)); }

TEST_CASE("The prefix cache agrees with the model where blocks are short") { RunPools(PoolOf(5)); }

TEST_CASE("The prefix cache agrees with the model where there is room for all") {
  CacheRunOptions options = PoolOf(40);
  options.letters = 2;
  RunPools(options);
}

TEST_CASE("The prefix cache agrees with the model where tenants have a quota") {
  CacheRunOptions options = PoolOf(14);
  options.ledger.max_blocks_per_tenant = 8;
  RunPools(options);
}

TEST_CASE("The prefix cache agrees with the model where sessions have guarantees") {
  CacheRunOptions options = PoolOf(14);
  options.max_guarantee = 4;
  RunPools(options);
}

TEST_CASE("The prefix cache agrees with the model with guarantees and a quota") {
  CacheRunOptions options = PoolOf(12);
  options.max_guarantee = 3;
  options.ledger.max_blocks_per_tenant = 7;
  RunPools(options);
}

TEST_CASE("The prefix cache agrees with the model by the learned policy") {
  RunPools(PoolOf(12, EvictionPolicyName::kLearned));
}

TEST_CASE("The prefix cache agrees with the model by the learned policy with a quota") {
  CacheRunOptions options = PoolOf(10, EvictionPolicyName::kLearned);
  options.ledger.max_blocks_per_tenant = 6;
  RunPools(options);
}

}  // namespace kvpool::test
