#pragma once

#include <cstddef>
#include <span>

#include "absl/status/status.h"

namespace kvpool::demo {

// Copies between the host and GPU memory that this process has, by the CUDA driver's own calls:
// what a worker does that has no kernels. Each waits until it is done. The driver is
// KVPOOL_LIBCUDA, else libcuda.so.1, with the first device's context, and stays loaded.
// INTERNAL, naming the call and its result, where the driver refuses. Thread-safe.
absl::Status CopyToGpu(std::span<const std::byte> from, void* to);
absl::Status CopyFromGpu(const void* from, std::span<std::byte> to);

}  // namespace kvpool::demo
