#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/layout/dtype.h"

namespace kvpool {

// What identifies the content of one side of some blocks. Sums are over elements as f64, in
// element order, NaNs counted but not summed; `crc32c` is over the raw bytes, scales included.
struct SideChecksum {
  double sum = 0;
  double sum_of_squares = 0;
  double sum_of_absolutes = 0;
  uint64_t nan_count = 0;
  uint32_t crc32c = 0;
  bool has_sums = false;  // Whether the dtype decodes to numbers: fp32, fp16, bf16, fp8.

  bool operator==(const SideChecksum&) const = default;
};

// Adds up the bytes of one side, a piece at a time and in order. A piece of a decodable dtype is
// whole elements. Not thread-safe.
class ChecksumBuilder {
 public:
  explicit ChecksumBuilder(Dtype dtype);

  void Add(std::span<const std::byte> bytes);
  SideChecksum Result() const;

 private:
  Dtype dtype_;
  SideChecksum checksum_;
};

}  // namespace kvpool
