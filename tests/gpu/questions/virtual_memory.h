#pragma once

#include <string>

#include "tests/gpu/questions/gpu.h"

namespace kvpool::questions {

// Memory that a file descriptor stands for (the driver's virtual memory management), which core
// does not use.

// Whether the driver has the calls.
bool HasVirtualMemory();

// Allocates kPage bytes full of `value` and sends a descriptor of them over the connected unix
// socket. "0", or what failed. The memory stays until the process ends.
std::string MakeAndSendFd(const Gpu& gpu, uint8_t value, int socket);

// Maps memory a second time, to be read alone, and writes there: what each step results in, and
// what becomes of the context.
std::string WriteWhereReadingIsAllowed(const Gpu& gpu);

}  // namespace kvpool::questions
