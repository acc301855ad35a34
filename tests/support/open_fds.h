#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>

namespace kvpool::test {

// How many file descriptors this process has open.
inline ptrdiff_t OpenFdCount() {
  const std::filesystem::directory_iterator fds("/proc/self/fd");
  return std::distance(begin(fds), end(fds));
}

}  // namespace kvpool::test
