#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "tests/model/ledger/ledger_run.h"
#include "tests/model/ledger/run_pools.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"

// Random calls on a ledger and on LedgerModel, all that is visible compared after each. To replay
// a failure set KVPOOL_TEST_SEED to the seed that it prints; the calls before it are written so
// that they can also be made by hand. For a long run set KVPOOL_MODEL_STEPS to the number of calls
// that each of the test cases makes, and KVPOOL_TEST_SEED to something fresh.
//
// KVPOOL_MODEL_DEFAULT_STEPS comes from CMakeLists.txt: there are 18 test cases, so 60,000 each
// are more than a million in all, and 6,500 under a sanitizer more than 100,000.

namespace kvpool::test {
namespace {

constexpr uint32_t kStepsOfOnePool = 5'000;

uint32_t Steps() {
  const char* text = std::getenv("KVPOOL_MODEL_STEPS");
  return text == nullptr ? KVPOOL_MODEL_DEFAULT_STEPS
                         : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}

// One pool after another, each emptied at its end.
void RunPools(const RunOptions& options) {
  const uint64_t seed = Seed();
  uint32_t pool = 0;
  for (uint32_t left = Steps(); left > 0; ++pool) {
    const uint32_t steps = std::min(left, kStepsOfOnePool);
    const std::string failure = LedgerRun(options, Choices(seed + 1'000'003ULL * pool)).Run(steps);
    if (!failure.empty()) {
      CAPTURE(seed, pool);
      FAIL(failure);
    }
    left -= steps;
  }
  CHECK(pool > 0);
}

}  // namespace

TEST_CASE("The ledger agrees with the model") { RunPools(SmallPool(8)); }

TEST_CASE("The ledger agrees with the model in a pool of three blocks") { RunPools(SmallPool(3)); }

TEST_CASE("The ledger agrees with the model where a tenant has a quota") {
  RunOptions options = SmallPool(7);
  options.ledger.max_blocks_per_tenant = 4;
  RunPools(options);
}

TEST_CASE("The ledger agrees with the model where sessions have guarantees") {
  RunOptions options = SmallPool(8);
  options.max_guarantee = 4;
  RunPools(options);
}

TEST_CASE("The ledger agrees with the model with guarantees and a quota and slices") {
  RunOptions options = SmallPool(12);
  options.sessions = 5;
  options.max_guarantee = 3;
  options.ledger.max_blocks_per_tenant = 8;
  options.ledger.limits.reclaim_slice = 2;
  RunPools(options);
}

TEST_CASE("The ledger agrees with the model where ended sessions are reclaimed in slices") {
  RunOptions options = SmallPool(8);
  options.ledger.limits.reclaim_slice = 1;
  RunPools(options);
}

TEST_CASE("The ledger agrees with the model where claims outlast their processes") {
  RunOptions options = SmallPool(6);
  options.ledger.claim_grace = std::chrono::nanoseconds(7'300);
  RunPools(options);
}

TEST_CASE("The ledger agrees with the model with tracing on") {
  RunOptions options = SmallPool(4);
  options.ledger.trace = true;
  options.sessions = 3;
  RunPools(options);
}

TEST_CASE("The ledger agrees with the model where every block is poisoned") {
  RunOptions options = SmallPool(5);
  options.ledger.fill_on_alloc = Fill::kPoison;
  RunPools(options);
}

TEST_CASE("The ledger agrees with the model where much falls due at one time") {
  RunOptions options = SmallPool(5);
  options.has_jitter = false;
  options.ledger.claim_grace = std::chrono::microseconds(4);
  RunPools(options);
}

TEST_CASE("The ledger agrees with the model that evicts the leaf used longest ago") {
  RunPools(CachePool(8, EvictionPolicyName::kLeafLru));
}

TEST_CASE("The ledger agrees with the model with leaf LRU where a tenant has a quota") {
  RunOptions options = CachePool(10, EvictionPolicyName::kLeafLru);
  options.ledger.max_blocks_per_tenant = 6;
  RunPools(options);
}

TEST_CASE("The ledger agrees with the model with leaf LRU, guarantees and a quota") {
  RunOptions options = CachePool(16, EvictionPolicyName::kLeafLru);
  options.max_guarantee = 5;
  options.ledger.max_blocks_per_tenant = 12;
  options.ledger.trace = true;
  RunPools(options);
}

TEST_CASE("The ledger agrees with the model where many wait, some of them with guarantees") {
  RunOptions options = CachePool(10, EvictionPolicyName::kLeafLru);
  options.max_guarantee = 5;
  options.max_wait_ticks = 150;
  options.ledger.limits.max_wait = std::chrono::microseconds(200);
  options.ledger.limits.max_waiting_calls = 8;
  RunPools(options);
}

TEST_CASE("The ledger agrees with the model where resets are reclaimed in slices") {
  RunOptions options = CachePool(12, EvictionPolicyName::kLeafLru);
  options.max_guarantee = 3;
  options.ledger.limits.reclaim_slice = 1;
  RunPools(options);
}

TEST_CASE("The ledger agrees with the model where much is cached") {
  RunOptions options = CachePool(40, EvictionPolicyName::kLeafLru);
  options.max_text = 7;
  options.sessions = 6;
  RunPools(options);
}

TEST_CASE("The ledger agrees with the model where the learned policy evicts") {
  RunOptions options = CachePool(16, EvictionPolicyName::kLearned);
  options.max_guarantee = 4;
  RunPools(options);
}

TEST_CASE("The ledger agrees with the model where the learned policy keeps a quota") {
  RunOptions options = CachePool(10, EvictionPolicyName::kLearned);
  options.ledger.max_blocks_per_tenant = 6;
  RunPools(options);
}

}  // namespace kvpool::test
