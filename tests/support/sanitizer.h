#pragma once

namespace kvpool::test {

// Whether the binaries under test, and the tests, are built with a sanitizer.
inline constexpr bool kIsSanitized = KVPOOL_IS_SANITIZED;

// What a test does with fewer repetitions where a sanitizer makes each several times slower.
constexpr int UnlessSanitized(int count, int sanitized_count) {
  return kIsSanitized ? sanitized_count : count;
}

}  // namespace kvpool::test
