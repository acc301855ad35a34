#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/block_lease.h"
#include "core/clock.h"
#include "core/ids.h"
#include "core/layout/pool_spec.h"

namespace kvpool::client {

// What of a sequence's begin decides what its KV is, beside the pool, the tenant and the session's
// model. Either tokens, which the daemon hashes, or hashes of the engine's own. What it points to
// must outlive the call alone.
struct Prefix {
  // What tokens alone do not say: an image, say.
  struct Extra {
    uint32_t first_token = 0;  // Of `tokens`.
    uint32_t token_count = 0;
    std::string hash{};  // 1 to 64 bytes, of the whole input.
  };

  // Of whole blocks; a last, partial block is ignored. Not with `block_hashes`.
  std::span<const uint32_t> tokens{};
  // One a block, of 16 to 32 bytes, each covering the whole prefix up to its block's end.
  std::span<const std::string> block_hashes{};
  // Goes on after the block of that key, as an answer's `last_key` gave it. Empty: from the start.
  std::string parent_key{};
  std::span<const Extra> extras{};
  std::string adapter{};  // Name and version of a LoRA.
  std::string salt{};     // A secret, or any other distinction.
};

// What Session::Publish did.
struct Published {
  // A block that was not needed: its prefix was findable already, in `known`.
  struct Duplicate {
    uint32_t index = 0;  // Of the call's blocks.
    BlockRef known{};
  };

  uint32_t count = 0;  // Blocks that became findable by it.
  std::vector<Duplicate> duplicates{};
  std::string last_key{};  // The next Publish's `parent_key`.
};

// The longest findable prefix.
struct FoundPrefix {
  std::vector<BlockLease> blocks{};
  uint64_t matched_tokens = 0;
  std::string last_key{};  // Of the last block; the prefix's parent_key where none is found.
};

// The same, as a hint: nothing protects these blocks from eviction.
struct PrefixHint {
  std::vector<BlockRef> blocks{};
  uint64_t matched_tokens = 0;
  std::string last_key{};
};

struct AcquireOptions {
  // How many new blocks to allocate now at most (a chunk of a prefill). 0: all.
  uint32_t max_new_blocks = 0;
  // Wait for room up to that long. 0 and less: not at all.
  Duration wait{};
  // What the new blocks then hold. kUnspecified: as the pool says.
  Fill fill = Fill::kUnspecified;
};

// The blocks of a sequence: those of its findable prefix, sealed, and new ones.
struct AcquiredBlocks {
  std::vector<BlockLease> blocks{};
  uint32_t matched_blocks = 0;  // The first ones.
  std::string last_key{};       // As FoundPrefix's.
};

// What Session::Evict did.
struct Evicted {
  std::vector<BlockId> blocks{};  // Findable no more.
  uint32_t freed = 0;             // How many of them are free.
};

}  // namespace kvpool::client
