#pragma once

#include <cstdio>
#include <cstdlib>

namespace kvpool::internal {

[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace kvpool::internal

// Ends the process unless `condition` holds, in every build: for bugs of our own, never for what
// a caller, a file or a device can get wrong.
#define KVPOOL_CHECK(condition)                                                \
  do {                                                                         \
    if (!(condition)) [[unlikely]]                                             \
      ::kvpool::internal::CheckFailed(__FILE__, __LINE__, #condition);         \
  } while (false)
