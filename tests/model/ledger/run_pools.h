#pragma once

#include <cstdint>

#include "tests/model/ledger/ledger_run.h"

namespace kvpool::test {

// Pools with limits that a run reaches. Times in it are some microseconds; so are the limits.
RunOptions SmallPool(uint32_t num_blocks);

// Where most calls are on the prefix cache, and sessions live for longer.
RunOptions CachePool(uint32_t num_blocks, EvictionPolicyName policy);

}  // namespace kvpool::test
