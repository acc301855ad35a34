#include "tests/model/ledger/run_pools.h"

#include <chrono>

namespace kvpool::test {

RunOptions SmallPool(uint32_t num_blocks) {
  return {.ledger = {.num_blocks = num_blocks,
                     .limits = {.max_blocks_per_call = 12,
                                .max_sessions = 9,
                                .max_process_sessions = 4,
                                .max_waiting_calls = 4,
                                .max_idempotency_keys = 3,
                                .max_references_per_block = 7,
                                .max_wait = std::chrono::microseconds(30),
                                .min_ttl = std::chrono::microseconds(5),
                                .max_ttl = std::chrono::microseconds(50)}}};
}

RunOptions CachePool(uint32_t num_blocks, EvictionPolicyName policy) {
  RunOptions options = SmallPool(num_blocks);
  options.ledger.eviction_policy = policy;
  options.ledger.limits.max_blocks_per_call = num_blocks;
  options.ledger.limits.max_ttl = std::chrono::microseconds(400);
  options.max_ttl_ticks = 500;
  options.cache_calls = 55;
  options.max_text = 5;
  return options;
}

}  // namespace kvpool::test
