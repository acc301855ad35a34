#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/device/device.h"
#include "core/layout/dtype.h"

namespace kvpool {

// What identifies the content of one side of some blocks. Sums are over elements as f64, in
// element order (to 1e-12 of that where a device made them), NaNs counted but not summed,
// infinities summed as they are (of both signs they make a sum that is NaN); `crc32c` is over the
// raw bytes, scales included.
struct SideChecksum {
  double sum = 0;
  double sum_of_squares = 0;
  double sum_of_absolutes = 0;
  uint64_t nan_count = 0;
  uint32_t crc32c = 0;
  bool has_sums = false;  // Whether the dtype decodes to numbers: fp32, fp16, bf16, fp8.

  // As doubles compare: a sum that is NaN equals nothing.
  bool operator==(const SideChecksum&) const = default;
};

// Adds up the bytes of one side, a piece at a time and in order. Requires that a piece of a
// decodable dtype is whole elements. Not thread-safe.
class ChecksumBuilder {
 public:
  explicit ChecksumBuilder(Dtype dtype);

  void Add(std::span<const std::byte> bytes);
  // What a device has added up, of `size_bytes`.
  void Add(const ExtentSums& sums, uint64_t size_bytes);
  // Of what was added so far; more may be added afterwards.
  SideChecksum Result() const;

 private:
  Dtype dtype_;
  SideChecksum checksum_;  // Its crc32c is the register, not yet inverted.
};

}  // namespace kvpool
