#pragma once

#include <cstddef>

namespace kvpool {

// Bytes of the heap in use by `new`, as malloc rounds them. A program that links this counts them,
// on one thread.
size_t HeapBytes();

}  // namespace kvpool
