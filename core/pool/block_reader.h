#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "core/pool.h"
#include "core/pool/pool_ledger.h"

namespace kvpool {

// The most bytes of one piece: 1 MiB less 4 KiB, so that a message with its other fields stays
// under 1 MiB. A multiple of every element's size.
inline constexpr uint64_t kMaxPieceBytes = (uint64_t{1} << 20) - 4096;

// As Pool::OpenReader.
absl::StatusOr<std::unique_ptr<Pool::Reader>> OpenBlockReader(const PoolHandle& pool,
                                                              const Caller& caller,
                                                              std::vector<BlockRef> blocks,
                                                              std::vector<uint32_t> layers,
                                                              uint32_t shard);

}  // namespace kvpool
