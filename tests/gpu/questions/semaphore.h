#pragma once

#include "tests/gpu/questions/gpu.h"

namespace kvpool::questions {

// Calls that order streams of different processes by numbers in memory that they share. Each has
// the result kNotFound where the driver has no such call.

// Has the stream wait until the 8 bytes at `address` are `value` or later, by cyclic comparison.
Result AwaitValue(const Gpu& gpu, DevicePointer address, uint64_t value);
// Has the stream set them.
Result WriteValue(const Gpu& gpu, DevicePointer address, uint64_t value);
// kNotReady unless the stream has done everything.
Result QueryStream(const Gpu& gpu);

// Whether the driver has all of them.
bool HasSemaphores();

}  // namespace kvpool::questions
