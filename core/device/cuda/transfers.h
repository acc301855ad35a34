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
// by the lane's work. The effect is complete when the stream is done, but that bytes of the host's
// have been read or written when the call returns. Extents are within their regions, or within
// `host`. Errors as Driver::ToStatus says.
//
// Many small extents are one launch of a kernel; a few, or large ones, are the driver's own calls;
// and so are all where there are no kernels. From and to the host's memory that is for each part
// that fills a half of the staging memory; the host copies those bytes once more, where they go.

absl::Status FillExtents(Lane& lane, const CudaRegion& region, std::span<const Extent> extents,
                         uint8_t value);

// The two may be on different devices, which is a call for each extent; the lane is of the
// source's.
absl::Status CopyExtents(Lane& lane, const CudaRegion& source, const CudaRegion& destination,
                         std::span<const CopyExtent> extents);

absl::Status CopyToHost(Lane& lane, const CudaRegion& source, std::span<std::byte> host,
                        std::span<const CopyExtent> extents);
absl::Status CopyFromHost(Lane& lane, std::span<const std::byte> host,
                          const CudaRegion& destination, std::span<const CopyExtent> extents);

}  // namespace kvpool::cuda
