// Calls on a ledger and on the model of it, compared after each: what the model tests do with
// random calls. The first byte says in which pool, each other one is a choice of the run's.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tests/fuzz/finding.h"
#include "tests/model/ledger/run_pools.h"

namespace kvpool::test {
namespace {

RunOptions PoolOf(uint8_t byte) {
  constexpr std::array<uint32_t, 4> kSmall{3, 5, 8, 12};
  // The longest prefix has five.
  constexpr std::array<uint32_t, 4> kCache{6, 8, 10, 16};
  const uint32_t size = byte & 3;
  const bool is_cache = (byte & 4) != 0;
  RunOptions options = is_cache
                           ? CachePool(kCache[size], (byte & 8) != 0 ? EvictionPolicyName::kLearned
                                                                     : EvictionPolicyName::kLeafLru)
                           : SmallPool(kSmall[size]);
  const uint32_t blocks = options.ledger.num_blocks;
  if ((byte & 8) != 0 && !is_cache) options.ledger.claim_grace = std::chrono::nanoseconds(7'300);
  if ((byte & 16) != 0) options.max_guarantee = std::max(1U, blocks / 3);
  if ((byte & 32) != 0) options.ledger.max_blocks_per_tenant = blocks - blocks / 3;
  if ((byte & 64) != 0) options.ledger.limits.reclaim_slice = 1 + size;
  if ((byte & 128) != 0) {
    options.has_jitter = false;
    options.ledger.trace = true;
    options.max_wait_ticks = 150;
    options.ledger.limits.max_wait = std::chrono::microseconds(200);
  }
  return options;
}

}  // namespace
}  // namespace kvpool::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvpool::test;
  if (size == 0) return 0;
  LedgerRun run(PoolOf(data[0]), Choices(std::span(data, size).subspan(1)));
  const std::string failure = run.Run(UINT32_MAX);
  Expect(failure.empty(), failure);
  return 0;
}
