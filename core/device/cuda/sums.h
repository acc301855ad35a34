#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"

#include "core/device/cuda/cuda_region.h"
#include "core/device/cuda/lane.h"
#include "core/device/device.h"
#include "core/layout/dtype.h"

namespace kvpool::cuda {

// What extents' offsets and sizes are multiples of: a thread adds up whole words.
inline constexpr uint64_t kSumAlignment = 4;

// Adds up each extent, at multiples of kSumAlignment, on the lane's device; called by
// its work. The results are there when it returns. Requires that the lane has kernels.
absl::Status SumExtents(Lane& lane, const CudaRegion& region, std::span<const Extent> extents,
                        Dtype dtype, std::span<ExtentSums> results);

}  // namespace kvpool::cuda
