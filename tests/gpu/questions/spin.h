#pragma once

#include <chrono>

#include "tests/gpu/questions/gpu.h"

namespace kvpool::questions {

// Starts a kernel that runs for that long, writing the GPU's clock, nanoseconds in 8 bytes, to
// `counter` all the time; does not wait for it. The result of the first call that failed, if one
// did.
Result StartSpin(const Gpu& gpu, DevicePointer counter, std::chrono::nanoseconds duration);

}  // namespace kvpool::questions
