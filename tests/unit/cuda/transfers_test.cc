#include "core/device/cuda/transfers.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/device/host_device.h"
#include "core/executor.h"
#include "tests/gpu/device_model.h"
#include "tests/support/eventually.h"
#include "tests/support/random.h"
#include "tests/unit/cuda/fixture.h"

namespace kvpool::cuda {
namespace {

constexpr uint64_t kSize = 300'000;

// How the driver is, and which calls tell that its way was taken.
struct Way {
  const char* name;
  const char* version;
  bool has_kernels;
};
const std::vector<Way> kWays = {{"kernels", "13000", true},
                                {"batches of CUDA 13", "13000", false},
                                {"batches of CUDA 12.8", "12080", false},
                                {"single calls", "12070", false}};

void Set(const Way& way) {
  fakecuda_set("FAKECUDA_VERSION", way.version);
  if (!way.has_kernels) fakecuda_set("FAKECUDA_FAIL", "cuModuleLoadData:1:221");
}

TEST_CASE("a device's bytes agree with plain vectors over random operations, each way") {
  const uint64_t seed = test::Seed();
  const Way way = kWays[static_cast<size_t>(GENERATE(0, 1, 2, 3))];
  FakeGpu gpu;
  Set(way);
  test::DeviceModel model(gpu.device(), seed);
  for (int step = 0; step < 120; ++step) {
    CAPTURE(seed, way.name, step);
    model.Step();
  }
  CAPTURE(seed, way.name);
  model.Check();
}

TEST_CASE("many small extents are one launch, or one batch, or a call each") {
  const Way way = kWays[static_cast<size_t>(GENERATE(0, 1, 2, 3))];
  CAPTURE(way.name);
  FakeGpu gpu;
  Set(way);
  const auto region = gpu.Allocate(kSize);
  std::vector<CopyExtent> copies;
  for (uint64_t i = 0; i < 100; ++i) {
    copies.push_back(
        {.source_bytes = i * 1000, .destination_bytes = 200'000 + i * 500, .size_bytes = 160});
  }
  REQUIRE(gpu.Copy(*region, *region, copies).ok());
  const bool has_batch = std::string(way.version) != "12070";
  CHECK(fakecuda_calls("cuLaunchKernel") == (way.has_kernels ? 1U : 0U));
  CHECK(fakecuda_calls("cuMemcpyBatchAsync") == (!way.has_kernels && has_batch ? 1U : 0U));
  CHECK(fakecuda_calls("cuMemcpyAsync") == (has_batch ? 0U : 100U));
}

TEST_CASE(
    "many small extents from the host and to it are one launch, or one batch, or a call each") {
  const Way way = kWays[static_cast<size_t>(GENERATE(0, 1, 2, 3))];
  const bool is_to_host = GENERATE(true, false);
  CAPTURE(way.name, is_to_host);
  FakeGpu gpu;
  Set(way);
  InlineExecutor executor;
  HostDevice host(executor);
  const auto region = gpu.Allocate(kSize);
  auto other = host.Allocate(kSize, "test");
  REQUIRE(other.ok());
  // 64 blocks of 8 layers, each lying otherwise there than here.
  std::vector<CopyExtent> copies;
  for (uint64_t i = 0; i < 512; ++i) {
    copies.push_back(
        {.source_bytes = i * 500, .destination_bytes = (511 - i) * 510, .size_bytes = 160});
  }
  REQUIRE(
      (is_to_host ? gpu.Copy(*region, **other, copies) : gpu.Copy(**other, *region, copies)).ok());
  const bool has_batch = std::string(way.version) != "12070";
  CHECK(fakecuda_calls("cuLaunchKernel") == (way.has_kernels ? 1U : 0U));
  CHECK(fakecuda_calls("cuMemcpyBatchAsync") == (!way.has_kernels && has_batch ? 1U : 0U));
  CHECK(fakecuda_calls("cuMemcpyAsync") == (has_batch ? 0U : 512U));
}

TEST_CASE("copies between the host and a GPU agree with plain vectors, each way") {
  const uint64_t seed = test::Seed();
  const Way way = kWays[static_cast<size_t>(GENERATE(0, 1, 2, 3))];
  CAPTURE(seed, way.name);
  test::Random random(seed);
  // More than the staging memory has room for, in bytes and in pieces.
  constexpr uint64_t kLong = 2 * Staging::kHalfBytes + 12'345;
  FakeGpu gpu;
  Set(way);
  InlineExecutor executor;
  HostDevice host(executor);
  const auto region = gpu.Allocate(kLong);
  auto other = host.Allocate(kLong, "test");
  REQUIRE(other.ok());
  const std::span<std::byte> host_bytes = (*other)->host_bytes();
  for (size_t i = 0; i < kLong; ++i) host_bytes[i] = static_cast<std::byte>(i * i / 251);
  std::vector<std::byte> expected_gpu(kLong);
  std::vector<std::byte> expected_host(host_bytes.begin(), host_bytes.end());
  for (int step = 0; step < 6; ++step) {
    CAPTURE(step);
    // Runs that do not overlap, each to the place of another of its size.
    const uint64_t place_bytes = step == 0 ? kLong : step % 4 < 2 ? 100 : 200'000;
    const auto places =
        static_cast<uint32_t>(std::min<uint64_t>(kLong / place_bytes, Staging::kHalfPieces + 9));
    const uint32_t shift = random.Below(places);
    std::vector<CopyExtent> copies;
    for (uint32_t i = 0; i < places; ++i) {
      copies.push_back({.source_bytes = i * place_bytes,
                        .destination_bytes = (i + shift) % places * place_bytes,
                        .size_bytes = place_bytes - random.Below(40)});
    }
    const bool is_to_host = step % 2 == 1;
    const auto& from = is_to_host ? expected_gpu : expected_host;
    auto& to = is_to_host ? expected_host : expected_gpu;
    for (const CopyExtent& copy : copies) {
      std::memcpy(to.data() + copy.destination_bytes, from.data() + copy.source_bytes,
                  copy.size_bytes);
    }
    REQUIRE((is_to_host ? gpu.Copy(*region, **other, copies) : gpu.Copy(**other, *region, copies))
                .ok());
  }
  CHECK(std::ranges::equal(host_bytes, expected_host));
  CHECK(gpu.ReadAll(*region) == expected_gpu);
}

TEST_CASE("large extents go by the copy engines, kernels or not") {
  FakeGpu gpu;
  const auto region = gpu.Allocate(uint64_t{4} << 20);
  std::vector<CopyExtent> copies;
  for (uint64_t i = 0; i < 8; ++i) {
    copies.push_back({.source_bytes = i << 18,
                      .destination_bytes = (uint64_t{2} << 20) + (i << 18),
                      .size_bytes = uint64_t{1} << 18});
  }
  REQUIRE(gpu.Copy(*region, *region, copies).ok());
  CHECK(fakecuda_calls("cuMemcpyBatchAsync") == 1);
  CHECK(fakecuda_calls("cuLaunchKernel") == 0);
}

TEST_CASE("without kernels the same side of all layers is filled by one call") {
  FakeGpu gpu;
  Set(kWays[1]);
  const auto region = gpu.Allocate(kSize);
  const uint64_t before = fakecuda_calls("cuMemsetD8Async");
  std::vector<Extent> extents;
  for (uint64_t layer = 0; layer < 20; ++layer) {
    extents.push_back({.offset_bytes = 64 + layer * 1024, .size_bytes = 256});
  }
  extents.push_back({.offset_bytes = 100'000, .size_bytes = 512});
  REQUIRE(gpu.Fill(*region, extents, 0xFF).ok());
  CHECK(fakecuda_calls("cuMemsetD2D8Async") == 1);
  CHECK(fakecuda_calls("cuMemsetD8Async") - before == 1);
}

TEST_CASE("what is longer than the staging memory is moved in pieces of it") {
  FakeGpu gpu;
  constexpr uint64_t kLong = 2 * Staging::kHalfBytes + 12'345;
  const auto region = gpu.Allocate(kLong);
  const std::vector<Extent> extents{{.offset_bytes = 1, .size_bytes = kLong - 100},
                                    {.offset_bytes = kLong - 50, .size_bytes = 50}};
  std::vector<std::byte> bytes(kLong - 50);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i / 251);
  REQUIRE(gpu.Write(*region, extents, bytes).ok());
  std::vector<std::byte> read(bytes.size());
  REQUIRE(gpu.Read(*region, extents, read).ok());
  CHECK(read == bytes);
}

TEST_CASE("more extents than a list has room for are several lists") {
  FakeGpu gpu;
  constexpr uint64_t kCount = 2 * Staging::kHalfPieces + 3;
  const auto region = gpu.Allocate(kCount * 32);
  std::vector<Extent> extents;
  for (uint64_t i = 0; i < kCount; ++i) {
    extents.push_back({.offset_bytes = i * 32 + 16, .size_bytes = 16});
  }
  REQUIRE(gpu.Fill(*region, extents, 3).ok());
  CHECK(fakecuda_calls("cuLaunchKernel") == 3);
  std::vector<std::byte> read(kCount * 16);
  REQUIRE(gpu.Read(*region, extents, read).ok());
  CHECK(read == std::vector<std::byte>(kCount * 16, std::byte{3}));
}

TEST_CASE("a copy that fails halfway is over only when what was begun is") {
  FakeGpu gpu;
  Set(kWays[3]);
  const auto region = gpu.Allocate(kSize);
  fakecuda_set("FAKECUDA_FAIL", "cuMemcpyAsync:2:1");
  const std::vector<CopyExtent> copies{
      {.source_bytes = 0, .destination_bytes = 100, .size_bytes = 10},
      {.source_bytes = 0, .destination_bytes = 200, .size_bytes = 10}};
  const uint64_t waits = fakecuda_calls("cuStreamSynchronize");
  fakecuda_hold();
  Ending copied;
  gpu.device().Copy(*region, *region, copies, copied.Take());
  // The first copy is still to be done when the second has failed: it is waited for.
  CHECK(test::Eventually([&] { return fakecuda_calls("cuStreamSynchronize") > waits; }));
  CHECK_FALSE(copied.is_over());
  fakecuda_release();
  CHECK(copied.Wait().code() == absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace kvpool::cuda
