#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace kvpool::test {

// Ends a fuzzer's run unless `is_right`: `what` is what it found.
inline void Expect(bool is_right, const std::string& what) {
  if (is_right) return;
  std::fprintf(stderr, "FOUND: %s\n", what.c_str());
  std::abort();
}

}  // namespace kvpool::test
