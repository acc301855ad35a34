#pragma once

#include <cstdint>

namespace kvpool::cuda {

// What the kernels are given and give back, lists of them in device memory. Read by kernels.cu,
// so nothing but plain numbers is here. Addresses are the device's.

// Bytes to set.
struct FillPiece {
  uint64_t to = 0;
  uint64_t size = 0;
};

// Bytes to copy; the two do not overlap.
struct CopyPiece {
  uint64_t to = 0;
  uint64_t from = 0;
  uint64_t size = 0;
};

// Bytes to add up. Its parts' results are those from `first_part` on, in order; a list is in the
// order of its first parts. Address and size are multiples of 4.
struct SumPiece {
  uint64_t from = 0;
  uint64_t size = 0;
  uint64_t first_part = 0;
};

// How much of a piece one thread adds up. Smaller ones are more threads at work, and more results
// to fetch: these are 2 % of the bytes.
inline constexpr uint64_t kPartBytes = 2048;

// How the elements of a piece are read: `kNone` has no sums. The format is one launch's.
enum class ElementFormat : uint32_t { kNone, kFp8, kFp16, kBf16, kFp32 };

// Of up to kPartBytes. Sums are over elements that are no NaN. `crc` is the CRC32C register that
// starts as 0 and is not inverted: such registers of neighbours can be put together.
struct PartSums {
  double sum = 0;
  double sum_of_squares = 0;
  double sum_of_absolutes = 0;
  uint32_t nan_count = 0;
  uint32_t crc = 0;
};

}  // namespace kvpool::cuda
