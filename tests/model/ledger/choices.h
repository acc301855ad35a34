#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tests/support/random.h"

namespace kvpool::test {

// What a run's choices come from: a seed, or bytes of a fuzzer's. Once the bytes are used up, from
// a seed that is always the same.
class Choices {
 public:
  explicit Choices(uint64_t seed) : random_(seed) {}
  explicit Choices(std::span<const uint8_t> bytes)
      : random_(0), bytes_(bytes.begin(), bytes.end()), has_bytes_(true) {}

  // In [0, bound). Requires bound > 0.
  uint32_t Below(uint32_t bound) {
    if (next_ == bytes_.size()) return random_.Below(bound);
    // Most bounds are small: a byte a choice, so that a byte changed changes one choice.
    uint32_t number = bytes_[next_++];
    for (uint32_t limit = 256; limit < bound && next_ < bytes_.size(); limit *= 256) {
      number = number * 256 + bytes_[next_++];
    }
    return number % bound;
  }
  // True once in `n` times.
  bool OneIn(uint32_t n) { return Below(n) == 0; }

  // Never with a seed.
  bool is_used_up() const { return has_bytes_ && next_ == bytes_.size(); }

 private:
  Random random_;
  std::vector<uint8_t> bytes_;
  size_t next_ = 0;
  bool has_bytes_ = false;
};

}  // namespace kvpool::test
