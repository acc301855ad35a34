#pragma once

#include <cstdint>

#include "core/ids.h"
#include "core/layout/pool_spec.h"

namespace kvpool {

// How much of everything a ledger takes. Each is announced or documented; each is an error at
// its edge, never a crash.
struct LedgerLimits {
  uint32_t max_blocks_per_call = 65'536;
  uint32_t max_sessions = 16'384;         // Ended ones that still claim count too. At most 65,535.
  uint32_t max_process_sessions = 2'048;  // Of those, of one process.
  uint32_t max_waiting_calls = 16'384;
  // Blocks to release and keys of prefixes, of all waiting calls together.
  uint32_t max_named_blocks = 1U << 20;
  uint32_t max_idempotency_keys = 64;              // A session.
  uint32_t max_references_per_block = UINT32_MAX;  // By all sessions.
  // Counts, for each block, the sessions that hold or claim it beyond the first.
  uint32_t max_sharers = 1U << 26;
  Duration max_wait = std::chrono::minutes(1);
  Duration min_ttl = std::chrono::seconds(1);
  Duration max_ttl = std::chrono::hours(1);
  // Changes to prefixes kept for those who watch, 256 bytes each at most. A pool of few blocks
  // keeps fewer: two a block, but at least 4,096.
  uint32_t max_logged_changes = 1U << 17;
  // References dropped at once by an operation in which sessions end; the rest go by Reclaim.
  uint32_t reclaim_slice = 4'096;
};

enum class EvictionPolicyName : uint8_t { kLearned, kLeafLru };

struct LedgerOptions {
  uint32_t num_blocks = 0;                    // 1 to kMaxBlocks.
  Fill fill_on_alloc = Fill::kAcrossTenants;  // Never kUnspecified.
  uint32_t max_blocks_per_tenant = 0;         // Held, cached and quarantined, each once. 0: all.
  EvictionPolicyName eviction_policy = EvictionPolicyName::kLearned;
  bool trace = false;
  // How long after its last process is gone a session's claims end.
  Duration claim_grace{};
  // Blocks' generations, and the numbers of changes to prefixes, begin after these.
  uint64_t before_first_generation = 0;
  uint64_t before_first_change = 0;
  LedgerLimits limits{};
};

}  // namespace kvpool
