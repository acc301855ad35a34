// Random operations on a device's regions against plain vectors, by each way that a driver offers.
#include "core/device/cuda/transfers.h"

#include <algorithm>
#include <string>
#include <vector>

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

// Up to 40 extents that do not overlap, in any order; some empty, some touching.
std::vector<Extent> RandomExtents(test::Random& random) {
  std::vector<Extent> extents;
  uint64_t offset = 0;
  const uint32_t count = random.Below(40);
  for (uint32_t i = 0; i < count; ++i) {
    if (!random.OneIn(4)) offset += random.Below(3000);
    const uint64_t size = random.OneIn(8)   ? 0
                          : random.OneIn(3) ? 16 * random.Below(300)
                                            : random.Below(4000);
    if (offset + size > kSize) break;
    extents.push_back({.offset_bytes = offset, .size_bytes = size});
    offset += size;
  }
  for (size_t i = extents.size(); i > 1; --i) {
    std::swap(extents[i - 1], extents[random.Below(static_cast<uint32_t>(i))]);
  }
  return extents;
}

uint64_t SumOf(const std::vector<Extent>& extents) {
  uint64_t sum = 0;
  for (const Extent& extent : extents) sum += extent.size_bytes;
  return sum;
}

TEST_CASE("a device's bytes agree with plain vectors over random operations, each way") {
  const uint64_t seed = test::Seed();
  const Way way = kWays[static_cast<size_t>(GENERATE(0, 1, 2, 3))];
  test::Random random(seed);
  FakeGpu gpu;
  Set(way);
  const auto a = gpu.Allocate(kSize);
  const auto b = gpu.Allocate(kSize);
  const std::vector<Region*> regions = {a.get(), b.get()};
  std::vector<std::vector<std::byte>> model(2, std::vector<std::byte>(kSize));

  for (int step = 0; step < 120; ++step) {
    CAPTURE(seed, way.name, step);
    const std::vector<Extent> extents = RandomExtents(random);
    const size_t on = random.Below(2);
    const uint32_t operation = random.Below(4);
    if (operation == 0) {
      const auto value = static_cast<uint8_t>(random.Below(256));
      REQUIRE(gpu.Fill(*regions[on], extents, value).ok());
      for (const Extent& extent : extents) {
        std::fill_n(model[on].begin() + static_cast<ptrdiff_t>(extent.offset_bytes),
                    extent.size_bytes, std::byte{value});
      }
    } else if (operation == 1) {
      // To the other region, at a distance that may put words out of step.
      std::vector<CopyExtent> copies;
      const uint64_t shift = random.Below(3) == 0 ? 16 * random.Below(100) : random.Below(100);
      for (const Extent& extent : extents) {
        if (extent.offset_bytes + extent.size_bytes + shift > kSize) continue;
        copies.push_back({.source_bytes = extent.offset_bytes,
                          .destination_bytes = extent.offset_bytes + shift,
                          .size_bytes = extent.size_bytes});
      }
      REQUIRE(gpu.Copy(*regions[on], *regions[1 - on], copies).ok());
      for (const CopyExtent& copy : copies) {
        std::copy_n(model[on].begin() + static_cast<ptrdiff_t>(copy.source_bytes), copy.size_bytes,
                    model[1 - on].begin() + static_cast<ptrdiff_t>(copy.destination_bytes));
      }
    } else if (operation == 2) {
      std::vector<std::byte> bytes(SumOf(extents));
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Below(256));
      REQUIRE(gpu.Write(*regions[on], extents, bytes).ok());
      auto from = bytes.begin();
      for (const Extent& extent : extents) {
        std::copy_n(from, extent.size_bytes,
                    model[on].begin() + static_cast<ptrdiff_t>(extent.offset_bytes));
        from += static_cast<ptrdiff_t>(extent.size_bytes);
      }
    } else {
      std::vector<std::byte> bytes(SumOf(extents));
      REQUIRE(gpu.Read(*regions[on], extents, bytes).ok());
      std::vector<std::byte> expected;
      for (const Extent& extent : extents) {
        const auto begin = model[on].begin() + static_cast<ptrdiff_t>(extent.offset_bytes);
        expected.insert(expected.end(), begin, begin + static_cast<ptrdiff_t>(extent.size_bytes));
      }
      REQUIRE(bytes == expected);
    }
  }
  CAPTURE(seed, way.name);
  CHECK(gpu.ReadAll(*a) == model[0]);
  CHECK(gpu.ReadAll(*b) == model[1]);
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
  CHECK(fakecuda_calls("cuMemcpyDtoDAsync") == (has_batch ? 0U : 100U));
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
  fakecuda_set("FAKECUDA_FAIL", "cuMemcpyDtoDAsync:2:1");
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
