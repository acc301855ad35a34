#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"

#include "core/device/cuda/cuda_region.h"
#include "core/device/cuda/lane.h"
#include "core/device/device.h"

namespace kvpool::cuda {

// What a device does with the bytes of regions: each puts it on the lane's stream, and is called
// by the lane's work. The effect is complete when the stream is done; what ReadExtents reads is
// there when it returns. Extents are within their regions. Errors as Driver::ToStatus says.
//
// Many small extents are one launch of a kernel; a few, or large ones, are the driver's own calls;
// and so are all where there are no kernels.

absl::Status FillExtents(Lane& lane, const CudaRegion& region, std::span<const Extent> extents,
                         uint8_t value);

// The two may be on different devices; the lane is of the source's.
absl::Status CopyExtents(Lane& lane, const CudaRegion& source, const CudaRegion& destination,
                         std::span<const CopyExtent> extents);

// `bytes` are as long as all extents, and lie in order.
absl::Status ReadExtents(Lane& lane, const CudaRegion& region, std::span<const Extent> extents,
                         std::span<std::byte> bytes);
absl::Status WriteExtents(Lane& lane, const CudaRegion& region, std::span<const Extent> extents,
                          std::span<const std::byte> bytes);

}  // namespace kvpool::cuda
