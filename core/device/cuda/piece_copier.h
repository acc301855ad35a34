#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"

#include "core/device/cuda/lane.h"
#include "core/device/cuda/staging.h"

namespace kvpool::cuda {

// Which way pieces go; the host's end is pinned memory.
enum class Direction : uint8_t { kWithinDevice, kToHost, kToDevice };

// The fewest extents that a kernel is launched for: less are as fast by calls of their own.
inline constexpr size_t kKernelPieces = 8;

// Puts the copies of the first `count` of `half.copies` on the lane's stream, and marks the half
// as used. By a kernel where they are many and small on average, else by one call for all where
// the driver has it (CUDA 12.8), else by one for each.
absl::Status CopyPieces(Lane& lane, const Staging::Half& half, size_t count, Direction direction);

}  // namespace kvpool::cuda
