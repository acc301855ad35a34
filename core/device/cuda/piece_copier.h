#pragma once

#include <cstddef>

#include "absl/status/status.h"

#include "core/device/cuda/lane.h"
#include "core/device/cuda/staging.h"

namespace kvpool::cuda {

// The fewest extents that a kernel is launched for: less are as fast by calls of their own.
inline constexpr size_t kKernelPieces = 8;

// Puts the copies of the first `count` of `half.copies` on the lane's stream, and marks the half
// as used. They go within the device, or from or to pinned memory. By a kernel where they are many
// and small on average, else by one call for all where the driver has it (CUDA 12.8), else by one
// for each.
absl::Status CopyPieces(Lane& lane, const Staging::Half& half, size_t count);

}  // namespace kvpool::cuda
