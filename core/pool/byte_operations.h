#pragma once

#include <optional>
#include <vector>

#include "core/pool/pool_ledger.h"
#include "core/pool/pool_types.h"
#include "core/pool/sliced_operation.h"

namespace kvpool {

// What Pool's operations on bytes are made of; Pool says what each does and how it fails. `done`
// is called once, maybe before these return.

// The value of every byte that `fill`, kZero or kPoison, leaves.
uint8_t FillValue(Fill fill);

void FillBlocks(const PoolHandle& pool, const Caller& caller, std::vector<BlockRef> blocks,
                Fill fill, SlicedOperation::Done done);

struct CopyRequest {
  std::vector<BlockRef> sources;
  std::vector<BlockRef> destinations;
  std::optional<SessionId> destination_session;
};
void CopyBlocks(const PoolHandle& source, const PoolHandle& destination, const Caller& caller,
                CopyRequest request, SlicedOperation::Done done);

void WritePiece(const PoolHandle& pool, const Caller& caller, BlockPiece piece,
                SlicedOperation::Done done);

// Does the fills of an Alloc, in slices, and tells the ledger. The ledger has pinned the blocks.
void FillAllocated(const PoolHandle& pool, FillNeeded fill);

}  // namespace kvpool
