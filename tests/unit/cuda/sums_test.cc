#include "core/device/cuda/sums.h"

#include <cmath>
#include <string>
#include <vector>

#include "core/memory/checksum.h"
#include "tests/support/random.h"
#include "tests/unit/cuda/fixture.h"

namespace kvpool::cuda {
namespace {

constexpr uint64_t kSize = 400'000;

SideChecksum HostSums(Dtype dtype, std::span<const std::byte> bytes) {
  ChecksumBuilder builder(dtype);
  builder.Add(bytes);
  return builder.Result();
}

absl::Status Sum(FakeGpu& gpu, const Region& region, std::span<const Extent> extents, Dtype dtype,
                 std::span<ExtentSums> results) {
  Ending ending;
  gpu.device().Sum(region, extents, dtype, results, ending.Take());
  return ending.Wait();
}

// To what adding up in another order changes, in units of what was added up. Infinities of both
// signs make a sum that is NaN, in any order.
bool IsNear(double a, double b, double absolutes) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= 1e-12 * absolutes;
}

TEST_CASE("sums on the device are the host's, for every format") {
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  const Dtype dtype =
      GENERATE(Dtype::kFp32, Dtype::kFp16, Dtype::kBf16, Dtype::kFp8, Dtype::kNvfp4, Dtype::kRaw);
  CAPTURE(seed, DtypeName(dtype));
  FakeGpu gpu;
  const auto region = gpu.Allocate(kSize);
  std::vector<std::byte> bytes(kSize);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Below(256));
  if (dtype == Dtype::kFp32 || dtype == Dtype::kBf16) {
    // Of moderate size, and some NaNs: random bits are mostly so large or small that no order of
    // adding up is like another.
    for (size_t i = 3; i < bytes.size(); i += 4) {
      bytes[i] =
          random.OneIn(50) ? std::byte{0x7F} : static_cast<std::byte>(0x3F + random.Below(2));
      if (dtype == Dtype::kBf16) bytes[i - 2] = std::byte{0xBF};
    }
  }
  const std::vector<Extent> whole{{.offset_bytes = 0, .size_bytes = kSize}};
  REQUIRE(gpu.Write(*region, whole, bytes).ok());

  std::vector<Extent> extents{{.offset_bytes = 0, .size_bytes = 0},
                              {.offset_bytes = 0, .size_bytes = kSize}};
  for (int i = 0; i < 60; ++i) {
    extents.push_back(
        {.offset_bytes = 4 * random.Below(90'000),
         .size_bytes = 4 * (random.OneIn(3) ? random.Below(20) : random.Below(5000))});
  }
  std::vector<ExtentSums> results(extents.size());
  REQUIRE(Sum(gpu, *region, extents, dtype, results).ok());
  for (size_t i = 0; i < extents.size(); ++i) {
    CAPTURE(i, extents[i].offset_bytes, extents[i].size_bytes);
    const auto part = std::span(bytes).subspan(extents[i].offset_bytes, extents[i].size_bytes);
    const SideChecksum host = HostSums(dtype, part);
    CHECK(results[i].crc32c == host.crc32c);
    CHECK(results[i].nan_count == host.nan_count);
    CHECK(IsNear(results[i].sum, host.sum, host.sum_of_absolutes));
    CHECK(IsNear(results[i].sum_of_squares, host.sum_of_squares, host.sum_of_squares));
    CHECK(IsNear(results[i].sum_of_absolutes, host.sum_of_absolutes, host.sum_of_absolutes));
  }
  CHECK((results[1].nan_count > 0) == (dtype != Dtype::kNvfp4 && dtype != Dtype::kRaw));
}

TEST_CASE("more extents than a list has room for are added up by several launches") {
  FakeGpu gpu;
  const auto region = gpu.Allocate(kSize);
  std::vector<Extent> extents;
  for (uint64_t i = 0; i < Staging::kHalfPieces + 5; ++i) {
    extents.push_back({.offset_bytes = i * 8, .size_bytes = 8});
  }
  std::vector<ExtentSums> results(extents.size());
  REQUIRE(Sum(gpu, *region, extents, Dtype::kRaw, results).ok());
  CHECK(fakecuda_calls("cuLaunchKernel") == 2);
  const uint32_t expected = HostSums(Dtype::kRaw, std::vector<std::byte>(8)).crc32c;
  for (const ExtentSums& sums : results) CHECK(sums.crc32c == expected);
}

TEST_CASE("without kernels nothing is added up on the device") {
  FakeGpu gpu;
  fakecuda_set("FAKECUDA_FAIL", "cuModuleLoadData:1:222");
  const auto region = gpu.Allocate(64);
  const absl::Status status = Sum(gpu, *region, {}, Dtype::kRaw, {});
  CHECK(status.code() == absl::StatusCode::kUnimplemented);
  CHECK(std::string(status.message()).find("(222)") != std::string::npos);
}

TEST_CASE("extents that are not whole words are not added up on the device") {
  FakeGpu gpu;
  const auto region = gpu.Allocate(64);
  const Extent extent = GENERATE(Extent{.offset_bytes = 2, .size_bytes = 8},
                                 Extent{.offset_bytes = 8, .size_bytes = 6});
  std::vector<ExtentSums> results(2);
  const std::vector<Extent> extents{{.offset_bytes = 0, .size_bytes = 4}, extent};
  const absl::Status status = Sum(gpu, *region, extents, Dtype::kRaw, results);
  CHECK(status.code() == absl::StatusCode::kUnimplemented);
  CHECK(std::string(status.message()).find("multiples of 4") != std::string::npos);
}

}  // namespace
}  // namespace kvpool::cuda
