#include "core/memory/checksum.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename T>
std::span<const std::byte> BytesOf(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

std::span<const std::byte> BytesOf(absl::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <typename T>
SideChecksum ChecksumOf(Dtype dtype, const std::vector<T>& values) {
  ChecksumBuilder builder(dtype);
  builder.Add(BytesOf(values));
  return builder.Result();
}

// CRC32C bit by bit, from its definition.
uint32_t SlowCrc32c(std::span<const std::byte> bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
  }
  return ~crc;
}

// What an element of `exponent_bits` and `mantissa_bits` is, from the definition of such formats.
double Decode(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto mantissa = static_cast<int>(bits & ((1U << mantissa_bits) - 1));
  const auto exponent = static_cast<int>((bits >> mantissa_bits) & ((1U << exponent_bits) - 1));
  const double sign = (bits >> (exponent_bits + mantissa_bits)) != 0 ? -1.0 : 1.0;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

TEST_CASE("the checksum of raw bytes is the standard CRC32C, and nothing else") {
  ChecksumBuilder builder(Dtype::kRaw);
  builder.Add(BytesOf(absl::string_view("123456789")));
  CHECK(builder.Result() == SideChecksum{.crc32c = 0xE3069283, .has_sums = false});
}

TEST_CASE("a checksum does not depend on how the bytes come in pieces") {
  const uint64_t seed = test::Seed();
  CAPTURE(seed);
  test::Random random(seed);
  std::vector<uint16_t> values(5000);
  for (uint16_t& value : values) value = static_cast<uint16_t>(random.Next() & 0x7FFF);
  const SideChecksum whole = ChecksumOf(Dtype::kFp16, values);
  CHECK(whole.crc32c == SlowCrc32c(BytesOf(values)));

  ChecksumBuilder builder(Dtype::kFp16);
  for (std::span<const std::byte> rest = BytesOf(values); !rest.empty();) {
    const size_t size = std::min<size_t>(rest.size(), 2 * random.Below(200));
    builder.Add(rest.first(size));
    (void)builder.Result();
    rest = rest.subspan(size);
  }
  const SideChecksum pieces = builder.Result();
  CHECK(pieces.crc32c == whole.crc32c);
  CHECK(pieces.nan_count == whole.nan_count);
  CHECK(std::memcmp(&pieces.sum, &whole.sum, sizeof(double)) == 0);
  CHECK(std::memcmp(&pieces.sum_of_squares, &whole.sum_of_squares, sizeof(double)) == 0);
}

TEST_CASE("nothing added is an entry of zeros that says whether its dtype has sums") {
  for (const Dtype dtype : {Dtype::kFp32, Dtype::kFp16, Dtype::kBf16, Dtype::kFp8}) {
    CHECK(ChecksumBuilder(dtype).Result() == SideChecksum{.has_sums = true});
  }
  for (const Dtype dtype : {Dtype::kNvfp4, Dtype::kTurbo8, Dtype::kTurbo4, Dtype::kTurbo3,
                            Dtype::kTurbo2, Dtype::kRaw}) {
    CHECK(ChecksumBuilder(dtype).Result() == SideChecksum{.has_sums = false});
  }
}

TEST_CASE("formats with scales have a checksum of their bytes and no sums") {
  const std::vector<uint8_t> bytes{1, 2, 3, 0xFF, 0x7F};
  for (const Dtype dtype :
       {Dtype::kNvfp4, Dtype::kTurbo8, Dtype::kTurbo4, Dtype::kTurbo3, Dtype::kTurbo2}) {
    CHECK(ChecksumOf(dtype, bytes) ==
          SideChecksum{.crc32c = SlowCrc32c(BytesOf(bytes)), .has_sums = false});
  }
}

TEST_CASE("every fp8 element is decoded as E4M3, with NaNs apart and no infinities") {
  for (uint32_t bits = 0; bits < 256; ++bits) {
    CAPTURE(bits);
    const SideChecksum sums =
        ChecksumOf(Dtype::kFp8, std::vector<uint8_t>{static_cast<uint8_t>(bits)});
    if (bits == 0x7F || bits == 0xFF) {
      CHECK(sums.nan_count == 1);
      CHECK(sums.sum == 0);
      continue;
    }
    const double value = Decode(bits, 4, 3);
    CHECK(sums.nan_count == 0);
    CHECK(sums.sum == value);
    CHECK(sums.sum_of_squares == value * value);
    CHECK(sums.sum_of_absolutes == std::fabs(value));
  }
  CHECK(ChecksumOf(Dtype::kFp8, std::vector<uint8_t>{0x7E}).sum == 448);
}

TEST_CASE("every fp16 and bf16 element is decoded, with NaNs apart and infinities as they are") {
  const bool is_bf16 = GENERATE(true, false);
  const int exponent_bits = is_bf16 ? 8 : 5;
  const int mantissa_bits = 15 - exponent_bits;
  const uint32_t infinity = ((1U << exponent_bits) - 1) << mantissa_bits;
  size_t wrong = 0;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint32_t magnitude = bits & 0x7FFF;
    SideChecksum expected{.has_sums = true};
    if (magnitude > infinity) {
      expected.nan_count = 1;
    } else {
      expected.sum = magnitude == infinity ? (bits == magnitude ? HUGE_VAL : -HUGE_VAL)
                                           : Decode(bits, exponent_bits, mantissa_bits);
      expected.sum_of_squares = expected.sum * expected.sum;
      expected.sum_of_absolutes = std::fabs(expected.sum);
    }
    const std::vector<uint16_t> one{static_cast<uint16_t>(bits)};
    expected.crc32c = SlowCrc32c(BytesOf(one));
    if (ChecksumOf(is_bf16 ? Dtype::kBf16 : Dtype::kFp16, one) != expected) ++wrong;
  }
  CAPTURE(is_bf16);
  CHECK(wrong == 0);
}

TEST_CASE("fp32 sums are exact f64 sums in element order") {
  // Each order of adding these gives another sum: in order, 1e20 swallows the first 1 alone.
  const std::vector<float> values{1.0F, 1e20F, -1e20F, 0.5F, -3.0F};
  const double big = static_cast<double>(1e20F);
  const SideChecksum sums = ChecksumOf(Dtype::kFp32, values);
  CHECK(sums.sum == -2.5);
  CHECK(sums.sum_of_squares == 1.0 + big * big + big * big + 0.25 + 9.0);
  CHECK(sums.sum_of_absolutes == 1.0 + big + big + 0.5 + 3.0);
  CHECK(sums.nan_count == 0);
  CHECK(sums.has_sums);
}

TEST_CASE("NaNs of either sign are counted and leave the sums alone") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const SideChecksum sums = ChecksumOf(Dtype::kFp32, std::vector<float>{nan, 2.0F, -nan, 3.0F});
  CHECK(sums.nan_count == 2);
  CHECK(sums.sum == 5);
  CHECK(sums.sum_of_squares == 13);
  CHECK(sums.sum_of_absolutes == 5);
}

TEST_CASE("infinities are summed as they are") {
  const SideChecksum one = ChecksumOf(Dtype::kFp32, std::vector<float>{1.0F, -kInfinity});
  CHECK(one.sum == -HUGE_VAL);
  CHECK(one.sum_of_squares == HUGE_VAL);
  CHECK(one.sum_of_absolutes == HUGE_VAL);
  CHECK(one.nan_count == 0);
  const SideChecksum both = ChecksumOf(Dtype::kFp32, std::vector<float>{kInfinity, -kInfinity});
  CHECK(std::isnan(both.sum));
  CHECK(both.sum_of_absolutes == HUGE_VAL);
  CHECK(both.nan_count == 0);
}

TEST_CASE("poison is a NaN in every element of bf16, fp16, fp32 and fp8") {
  const std::vector<uint8_t> poison(64, 0xFF);
  CHECK(ChecksumOf(Dtype::kFp8, poison).nan_count == 64);
  CHECK(ChecksumOf(Dtype::kBf16, poison).nan_count == 32);
  CHECK(ChecksumOf(Dtype::kFp16, poison).nan_count == 32);
  CHECK(ChecksumOf(Dtype::kFp32, poison).nan_count == 16);
}

TEST_CASE("what a device added up goes between bytes as its bytes would") {
  const std::vector<float> values{1.0F, -2.0F, 4.0F, 8.0F, 16.0F};
  const auto bytes = BytesOf(values);
  const auto middle = bytes.subspan(4, 8);
  ChecksumBuilder of_middle(Dtype::kFp32);
  of_middle.Add(middle);
  const SideChecksum sums = of_middle.Result();
  ChecksumBuilder builder(Dtype::kFp32);
  builder.Add(bytes.first(4));
  builder.Add(ExtentSums{.sum = sums.sum,
                         .sum_of_squares = sums.sum_of_squares,
                         .sum_of_absolutes = sums.sum_of_absolutes,
                         .nan_count = sums.nan_count,
                         .crc32c = sums.crc32c},
              middle.size());
  builder.Add(bytes.subspan(12));
  CHECK(builder.Result() == ChecksumOf(Dtype::kFp32, values));
  builder.Add(ExtentSums{.nan_count = 3}, /*size_bytes=*/0);
  CHECK(builder.Result().nan_count == 3);
  CHECK(builder.Result().crc32c == ChecksumOf(Dtype::kFp32, values).crc32c);
}

}  // namespace
}  // namespace kvpool
