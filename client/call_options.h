#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "client/block_lease.h"
#include "core/clock.h"
#include "core/ids.h"
#include "core/layout/pool_spec.h"

namespace kvpool::client {

// What the calls of a Session take beside blocks.

struct AllocOptions {
  // Take what there is, down to none, instead of failing. Not with `wait`.
  bool allow_partial = false;
  // Wait for room up to that long. 0 and less: not at all.
  Duration wait{};
  // What the blocks then hold. kUnspecified: as the pool says.
  Fill fill = Fill::kUnspecified;
  // Given back in the same step, so that they can serve this call and nobody else. Untouched where
  // the daemon refuses the call, else emptied: without an answer (UNAVAILABLE, DEADLINE_EXCEEDED,
  // or the session ended meanwhile) the blocks may be others', and must not be written to. Each
  // must be the only fork of its reference.
  std::span<BlockLease> release = {};
};

enum class BlockSide : uint8_t { kK, kV };

// A run of bytes of one side of one block. `data` is its sender's or its receiver's.
struct BlockPiece {
  BlockId block{};
  uint32_t layer = 0;
  BlockSide side = BlockSide::kK;
  uint64_t offset_bytes = 0;  // In the side.
  std::span<const std::byte> data{};
  uint32_t shard = 0;
};

}  // namespace kvpool::client
