#include "core/memory/checksum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <isa-l/crc.h>

#include "core/check.h"
#include "core/device/crc_register.h"

namespace kvpool {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are stored little-endian");
static_assert(std::numeric_limits<double>::is_iec559 && std::numeric_limits<float>::is_iec559);

// crc32_iscsi neither inverts what it is given nor what it returns: the register starts with all
// ones, and Result inverts it.
constexpr uint32_t kCrcStart = 0xFFFFFFFF;

// The most that crc32_iscsi takes at once: its length is an int.
constexpr size_t kMaxCrcBytes = size_t{1} << 30;

uint32_t ExtendCrc(uint32_t crc, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kMaxCrcBytes));
    // The library does not write to what its older interface takes as non-const.
    auto* data = const_cast<std::byte*>(piece.data());
    crc = crc32_iscsi(reinterpret_cast<unsigned char*>(data), static_cast<int>(piece.size()), crc);
    bytes = bytes.subspan(piece.size());
  }
  return crc;
}

// E4M3: sign, 4 bits of exponent with bias 7, 3 of mantissa; no infinities, and only a magnitude
// of all ones is a NaN.
constexpr double DecodeE4M3(uint8_t bits) {
  const uint32_t magnitude = bits & 0x7FU;
  if (magnitude == 0x7F) return std::numeric_limits<double>::quiet_NaN();
  const uint32_t exponent = magnitude >> 3;
  const uint32_t mantissa = magnitude & 7U;
  // In units of 2^-9, that of the subnormals: a normal is (8 + mantissa) << (exponent - 1).
  const uint32_t units = exponent == 0 ? mantissa : (8 + mantissa) << (exponent - 1);
  const double value = units / 512.0;
  return (bits & 0x80U) != 0 ? -value : value;
}

constexpr std::array<double, 256> kE4M3Values = [] {
  std::array<double, 256> values{};
  for (uint32_t i = 0; i < values.size(); ++i) values[i] = DecodeE4M3(static_cast<uint8_t>(i));
  return values;
}();

// How each format's elements are stored and read. Structs, so that the loop over elements is
// compiled for each without a call in it.
struct Fp8 {
  using Stored = uint8_t;
  static double Decode(Stored bits) { return kE4M3Values[bits]; }
};

struct Bf16 {
  using Stored = uint16_t;
  static double Decode(Stored bits) {
    return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
  }
};

struct Fp16 {
  using Stored = uint16_t;
  static double Decode(Stored bits) {
    const uint64_t sign = static_cast<uint64_t>(bits >> 15) << 63;
    const uint64_t exponent = (bits >> 10) & 0x1FU;
    const uint64_t mantissa = bits & 0x3FFU;
    if (exponent == 0) {
      const double magnitude = static_cast<double>(mantissa) * 0x1p-24;
      return sign != 0 ? -magnitude : magnitude;
    }
    // f64 has exponent bias 1023 for 15, and 52 bits of mantissa for 10; all ones in the exponent
    // mean infinity or NaN in both.
    const uint64_t wide_exponent = exponent == 0x1F ? 0x7FF : exponent + (1023 - 15);
    return std::bit_cast<double>(sign | (wide_exponent << 52) | (mantissa << 42));
  }
};

struct Fp32 {
  using Stored = uint32_t;
  static double Decode(Stored bits) { return static_cast<double>(std::bit_cast<float>(bits)); }
};

template <typename Format>
void AddElements(std::span<const std::byte> bytes, SideChecksum& checksum) {
  using Stored = typename Format::Stored;
  KVPOOL_CHECK(bytes.size() % sizeof(Stored) == 0);
  // Locals, because the compiler cannot know that the fields are not among the bytes.
  double sum = checksum.sum;
  double sum_of_squares = checksum.sum_of_squares;
  double sum_of_absolutes = checksum.sum_of_absolutes;
  uint64_t nan_count = checksum.nan_count;
  for (size_t i = 0; i < bytes.size(); i += sizeof(Stored)) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i, sizeof(Stored));
    const double decoded = Format::Decode(stored);
    const bool is_nan = std::isnan(decoded);
    // Adding 0 changes no sum (none is ever -0), and spares a branch that poison would mislead.
    const double value = is_nan ? 0.0 : decoded;
    nan_count += is_nan ? 1 : 0;
    sum += value;
    sum_of_squares += value * value;
    sum_of_absolutes += std::fabs(value);
  }
  checksum.sum = sum;
  checksum.sum_of_squares = sum_of_squares;
  checksum.sum_of_absolutes = sum_of_absolutes;
  checksum.nan_count = nan_count;
}

bool Decodes(Dtype dtype) {
  return dtype == Dtype::kFp32 || dtype == Dtype::kFp16 || dtype == Dtype::kBf16 ||
         dtype == Dtype::kFp8;
}

}  // namespace

ChecksumBuilder::ChecksumBuilder(Dtype dtype) : dtype_(dtype) {
  checksum_.has_sums = Decodes(dtype);
  checksum_.crc32c = kCrcStart;
}

void ChecksumBuilder::Add(std::span<const std::byte> bytes) {
  checksum_.crc32c = ExtendCrc(checksum_.crc32c, bytes);
  switch (dtype_) {
    case Dtype::kFp32:
      return AddElements<Fp32>(bytes, checksum_);
    case Dtype::kFp16:
      return AddElements<Fp16>(bytes, checksum_);
    case Dtype::kBf16:
      return AddElements<Bf16>(bytes, checksum_);
    case Dtype::kFp8:
      return AddElements<Fp8>(bytes, checksum_);
    case Dtype::kNvfp4:
    case Dtype::kTurbo8:
    case Dtype::kTurbo4:
    case Dtype::kTurbo3:
    case Dtype::kTurbo2:
    case Dtype::kRaw:
      return;
  }
}

void ChecksumBuilder::Add(const ExtentSums& sums, uint64_t size_bytes) {
  checksum_.sum += sums.sum;
  checksum_.sum_of_squares += sums.sum_of_squares;
  checksum_.sum_of_absolutes += sums.sum_of_absolutes;
  checksum_.nan_count += sums.nan_count;
  checksum_.crc32c = ~JoinCrc(~checksum_.crc32c, sums.crc32c, size_bytes);
}

SideChecksum ChecksumBuilder::Result() const {
  SideChecksum result = checksum_;
  result.crc32c = ~result.crc32c;
  return result;
}

}  // namespace kvpool
