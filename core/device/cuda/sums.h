#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"

#include "core/device/cuda/cuda_region.h"
#include "core/device/cuda/lane.h"
#include "core/device/device.h"
#include "core/layout/dtype.h"

namespace kvpool::cuda {

// What identifies the content of one extent. Sums are over its elements in f64, part by part (to
// 1e-12 of a sum in element order), NaNs counted but not summed; 0 for formats that do not decode
// to numbers. `crc32c` is over the raw bytes, and exact.
struct ExtentSums {
  double sum = 0;
  double sum_of_squares = 0;
  double sum_of_absolutes = 0;
  uint64_t nan_count = 0;
  uint32_t crc32c = 0;
};

// Adds up each extent, whose offset and size are multiples of 4, on the lane's device; called by
// its work. The results are there when it returns. Requires that the lane has kernels.
absl::Status SumExtents(Lane& lane, const CudaRegion& region, std::span<const Extent> extents,
                        Dtype dtype, std::span<ExtentSums> results);

}  // namespace kvpool::cuda
