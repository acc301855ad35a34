// What runs on the GPU. Compiled by nvcc to kernels.ptx, which is committed (update_ptx.sh), and
// by the C++ compiler for the tests' CPU, which gives `At`, the qualifiers and the indices.
//
// Grids: fill and copy have a row of blocks (y) for each piece (x); sums have a thread for each
// part of any piece.
#include <cstdint>

#include "core/device/cuda/kernel_pieces.h"

namespace kvpool::cuda {
namespace {

#ifdef __CUDACC__
// `count` objects at an address.
template <typename T>
__device__ T* At(uint64_t address, uint64_t /*count*/) {
  return reinterpret_cast<T*>(address);
}
#endif

// The widest word that a thread loads and stores.
struct alignas(16) Word {
  uint32_t parts[4];
};
constexpr uint64_t kWordBytes = sizeof(Word);

// Where this thread begins in the row of blocks of its piece, and how far it steps.
__device__ uint64_t RowStart() {
  return static_cast<uint64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
}
__device__ uint64_t RowStep() { return static_cast<uint64_t>(gridDim.y) * blockDim.x; }

// How many of `size` bytes at `address` are before the first whole word.
__device__ uint64_t HeadBytes(uint64_t address, uint64_t size) {
  const uint64_t head = (kWordBytes - address % kWordBytes) % kWordBytes;
  return head < size ? head : size;
}

__device__ double FloatOf(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

// `fraction` units of 2^-`scale`, or, where the exponent is not 0, the float of that exponent and
// fraction: how formats narrower than f32 become one.
__device__ double SmallFloat(uint32_t sign, uint32_t exponent, uint32_t fraction,
                             uint32_t fraction_bits, uint32_t bias) {
  if (exponent == 0) {
    const double unit = FloatOf((127 + 1 - bias - fraction_bits) << 23);
    const double magnitude = fraction * unit;
    return sign != 0 ? -magnitude : magnitude;
  }
  return FloatOf((sign << 31) | ((exponent + 127 - bias) << 23) |
                 (fraction << (23 - fraction_bits)));
}

constexpr uint32_t kNan = 0x7FC00000;

__device__ double Fp8Of(uint32_t bits) {
  if ((bits & 0x7F) == 0x7F) return FloatOf(kNan);
  return SmallFloat(bits >> 7, (bits >> 3) & 0xF, bits & 7, /*fraction_bits=*/3, /*bias=*/7);
}

__device__ double Fp16Of(uint32_t bits) {
  const uint32_t exponent = (bits >> 10) & 0x1F;
  const uint32_t fraction = bits & 0x3FF;
  // Infinity and NaN have all ones in the exponent of f32, too.
  if (exponent == 0x1F) return FloatOf(((bits >> 15) << 31) | 0x7F800000 | (fraction << 13));
  return SmallFloat(bits >> 15, exponent, fraction, /*fraction_bits=*/10, /*bias=*/15);
}

__device__ void Add(double value, PartSums& sums) {
  if (value != value) {
    ++sums.nan_count;
    return;
  }
  sums.sum += value;
  sums.sum_of_squares += value * value;
  sums.sum_of_absolutes += value < 0 ? -value : value;
}

// The elements of four bytes, in order.
__device__ void AddElements(uint32_t word, ElementFormat format, PartSums& sums) {
  switch (format) {
    case ElementFormat::kNone:
      return;
    case ElementFormat::kFp8:
      for (uint32_t shift = 0; shift < 32; shift += 8) Add(Fp8Of((word >> shift) & 0xFF), sums);
      return;
    case ElementFormat::kFp16:
      Add(Fp16Of(word & 0xFFFF), sums);
      Add(Fp16Of(word >> 16), sums);
      return;
    case ElementFormat::kBf16:
      Add(FloatOf(word << 16), sums);
      Add(FloatOf(word & 0xFFFF0000), sums);
      return;
    case ElementFormat::kFp32:
      Add(FloatOf(word), sums);
      return;
  }
}

// The register after four more bytes. Bit by bit: threads that look up different entries of a
// table wait for each other.
__device__ uint32_t ExtendCrc(uint32_t crc, uint32_t word) {
  constexpr uint32_t kCastagnoli = 0x82F63B78;  // Reflected.
  crc ^= word;
  for (int bit = 0; bit < 32; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kCastagnoli : 0);
  return crc;
}

// The piece that has the part: the last one whose first part is not after it.
__device__ const SumPiece& PieceOf(const SumPiece* pieces, uint64_t count, uint64_t part) {
  uint64_t first = 0;
  while (count > 1) {
    const uint64_t half = count / 2;
    if (pieces[first + half].first_part <= part) first += half, count -= half;
    else count = half;
  }
  return pieces[first];
}

}  // namespace

// Sets every byte of piece x of `pieces` to the low byte of `value`.
extern "C" __global__ void kvpool_fill(uint64_t pieces, uint32_t value) {
  const FillPiece piece = At<const FillPiece>(pieces, gridDim.x)[blockIdx.x];
  uint8_t* const bytes = At<uint8_t>(piece.to, piece.size);
  const uint64_t head = HeadBytes(piece.to, piece.size);
  const uint64_t words = (piece.size - head) / kWordBytes;
  const uint32_t four = (value & 0xFF) * 0x01010101;
  const Word word = {{four, four, four, four}};
  Word* const body = reinterpret_cast<Word*>(bytes + head);
  for (uint64_t i = RowStart(); i < words; i += RowStep()) body[i] = word;
  // What is before and after the words is less than two of them: a byte a thread.
  const uint64_t edges = piece.size - words * kWordBytes;
  for (uint64_t i = RowStart(); i < edges; i += RowStep()) {
    bytes[i < head ? i : words * kWordBytes + i] = static_cast<uint8_t>(value);
  }
}

// Copies piece x of `pieces`.
extern "C" __global__ void kvpool_copy(uint64_t pieces) {
  const CopyPiece piece = At<const CopyPiece>(pieces, gridDim.x)[blockIdx.x];
  uint8_t* const to = At<uint8_t>(piece.to, piece.size);
  const uint8_t* const from = At<const uint8_t>(piece.from, piece.size);
  const bool in_step = (piece.to - piece.from) % kWordBytes == 0;
  const uint64_t head = HeadBytes(piece.to, piece.size);
  const uint64_t words = in_step ? (piece.size - head) / kWordBytes : 0;
  Word* const body = reinterpret_cast<Word*>(to + head);
  const Word* const source = reinterpret_cast<const Word*>(from + head);
  for (uint64_t i = RowStart(); i < words; i += RowStep()) body[i] = source[i];
  // All of it, byte by byte, where the two lie differently in their words.
  const uint64_t edges = piece.size - words * kWordBytes;
  for (uint64_t i = RowStart(); i < edges; i += RowStep()) {
    const uint64_t index = i < head ? i : words * kWordBytes + i;
    to[index] = from[index];
  }
}

// Adds up part `t` of the `part_count` of the pieces into results[t], thread t.
extern "C" __global__ void kvpool_sum(uint64_t pieces, uint64_t piece_count, uint64_t results,
                                      uint64_t part_count, uint32_t format) {
  const uint64_t part = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (part >= part_count) return;
  const SumPiece piece = PieceOf(At<const SumPiece>(pieces, piece_count), piece_count, part);
  const uint64_t offset = (part - piece.first_part) * kPartBytes;
  const uint64_t left = piece.size - offset;
  const uint64_t size = left < kPartBytes ? left : kPartBytes;
  const uint32_t* const words = At<const uint32_t>(piece.from + offset, size / sizeof(uint32_t));
  PartSums sums;
  for (uint64_t i = 0; i < size / sizeof(uint32_t); ++i) {
    const uint32_t word = words[i];
    sums.crc = ExtendCrc(sums.crc, word);
    AddElements(word, static_cast<ElementFormat>(format), sums);
  }
  At<PartSums>(results, part_count)[part] = sums;
}

}  // namespace kvpool::cuda
