#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"

#include "core/pool/pool_ledger.h"
#include "core/pool/pool_types.h"

namespace kvpool {

// As Pool::ChecksumLayers and Pool::ChecksumBlocks.
void ChecksumLayers(const PoolHandle& pool, std::vector<BlockRef> blocks, uint32_t boundary,
                    uint32_t shard,
                    absl::AnyInvocable<void(absl::StatusOr<std::vector<LayerChecksum>>)> done);
void ChecksumBlocks(const PoolHandle& pool, std::vector<BlockRef> blocks, uint32_t layer,
                    uint32_t shard,
                    absl::AnyInvocable<void(absl::StatusOr<std::vector<BlockChecksum>>)> done);

}  // namespace kvpool
