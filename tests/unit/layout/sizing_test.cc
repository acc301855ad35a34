// How many blocks a pool gets: the three ways to size one.

#include <string>
#include <vector>

#include "core/layout/pool_layout.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"
#include "tests/unit/layout/specs.h"

namespace kvpool {
namespace {

using test::BaseSpec;
using test::Raw;

constexpr uint64_t kMib = 1 << 20;

PoolSpec InBytes(PoolSpec spec, uint64_t bytes) {
  spec.num_blocks.reset();
  spec.memory_bytes = bytes;
  return spec;
}

// Blocks of 1 MiB on one CUDA device, sized by utilization.
PoolSpec Utilizing(double utilization) {
  PoolSpec spec = Raw(1, 1 << 20);
  spec.v_mode = VMode::kNone;
  spec.devices = {"cuda:0"};
  spec.num_blocks.reset();
  spec.memory_utilization = utilization;
  return spec;
}

uint32_t CountOf(const PoolSpec& spec, const std::vector<DeviceMemory>& devices = {}) {
  const auto layout = PlanPool(spec, devices);
  INFO(std::string(layout.status().message()));
  REQUIRE(layout.ok());
  return layout->num_blocks;
}

TEST_CASE("1,000,000 bytes hold the blocks that the contract pins") {
  PoolSpec spec = BaseSpec();
  CHECK(CountOf(InBytes(spec, 1'000'000)) == 5);
  spec.dtype = "nvfp4";
  CHECK(CountOf(InBytes(spec, 1'000'000)) == 9);
  spec.high_precision_layers = 1;
  CHECK(CountOf(InBytes(spec, 1'000'000)) == 6);
}

TEST_CASE("A size by bytes fits to the byte") {
  PoolSpec spec = BaseSpec();
  CHECK(CountOf(InBytes(spec, 5 * 196'608)) == 5);
  CHECK(CountOf(InBytes(spec, 5 * 196'608 - 1)) == 4);
  CHECK(CountOf(InBytes(spec, 196'608)) == 1);
}

TEST_CASE("A size by bytes counts the alignment of layer-major sides") {
  PoolSpec spec = Raw(1, 100);  // K and V of 100 bytes; V starts at a multiple of 256.
  CHECK(CountOf(InBytes(spec, 512 + 300)) == 3);
  CHECK(CountOf(InBytes(spec, 512 + 299)) == 2);
  spec.memory_order = MemoryOrder::kBlockMajor;
  CHECK(CountOf(InBytes(spec, 600)) == 3);
}

TEST_CASE("A size by bytes on CUDA counts the rounding to 2 MiB") {
  PoolSpec spec = Raw(1, 1 << 20);
  spec.v_mode = VMode::kNone;
  spec.devices = {"cuda:0"};
  CHECK(CountOf(InBytes(spec, 4 * kMib)) == 4);
  CHECK(CountOf(InBytes(spec, 4 * kMib - 1)) == 2);
  CHECK(CountOf(InBytes(spec, 3 * kMib)) == 2);
  CHECK(absl::IsResourceExhausted(PlanPool(InBytes(spec, 2 * kMib - 1)).status()));
}

TEST_CASE("A size by bytes is of each device and ignores what the device has") {
  PoolSpec spec = InBytes(BaseSpec(), 1'000'000);
  spec.devices = {"host", "host"};
  CHECK(CountOf(spec) == 5);
  CHECK(CountOf(spec, {{.total_bytes = 1, .free_bytes = 1}, {.total_bytes = 1, .free_bytes = 1}}) ==
        5);
}

TEST_CASE("V that aliases K counts once in a size by bytes") {
  PoolSpec spec = BaseSpec();
  spec.v_mode = VMode::kAliasesK;
  CHECK(CountOf(InBytes(spec, 1'000'000)) == 10);
}

TEST_CASE("No block at all is RESOURCE_EXHAUSTED, naming the bytes") {
  const auto layout = PlanPool(InBytes(BaseSpec(), 196'607));
  REQUIRE(absl::IsResourceExhausted(layout.status()));
  const std::string message(layout.status().message());
  CHECK(message.find("memory_bytes is 196607") != std::string::npos);
  CHECK(message.find("196608 bytes") != std::string::npos);
}

TEST_CASE("More blocks than a pool may have are INVALID_ARGUMENT, not cut") {
  PoolSpec spec = Raw(1, 1);
  spec.v_mode = VMode::kNone;
  CHECK(CountOf(InBytes(spec, kMaxBlocks)) == kMaxBlocks);
  const auto layout = PlanPool(InBytes(spec, uint64_t{kMaxBlocks} + 1));
  REQUIRE(absl::IsInvalidArgument(layout.status()));
  CHECK(std::string(layout.status().message()).find("memory_bytes is 2147483648") == 0);
  CHECK(absl::IsInvalidArgument(PlanPool(InBytes(spec, UINT64_MAX)).status()));
}

struct UtilizationCase {
  const char* what;
  double utilization;
  uint64_t total_mib;
  uint64_t free_mib;
  uint64_t reserve_mib;
  uint32_t num_blocks;  // Of 1 MiB, in pairs as shards are multiples of 2 MiB. 0: none.
};

TEST_CASE("A size by utilization is min(total u - used - reserve, free - reserve)") {
  const auto c = GENERATE(values<UtilizationCase>({
      {"nothing used", 0.5, 100, 100, 0, 50},
      {"used counts against the share", 0.5, 100, 80, 0, 30},
      {"reserve counts against the share", 0.5, 100, 80, 10, 20},
      {"all of it", 1.0, 100, 100, 0, 100},
      {"all that is free", 1.0, 100, 60, 0, 60},
      {"reserve counts against what is free", 1.0, 100, 60, 20, 40},
      {"odd budgets round down to 2 MiB", 0.5, 100, 81, 0, 30},
      {"used up", 0.5, 100, 50, 0, 0},
      {"used up and over", 0.5, 100, 10, 0, 0},
      {"reserve over what is free", 1.0, 100, 60, 61, 0},
      {"a reserve over everything", 1.0, 100, 100, 1'000'000, 0},
      {"less than a block", 0.01, 100, 100, 0, 0},
      {"more free than there is", 0.5, 100, 200, 0, 50},
  }));
  CAPTURE(c.what);
  PoolSpec spec = Utilizing(c.utilization);
  spec.reserve_bytes = c.reserve_mib * kMib;
  const std::vector<DeviceMemory> devices = {
      {.total_bytes = c.total_mib * kMib, .free_bytes = c.free_mib * kMib}};
  if (c.num_blocks != 0) {
    CHECK(CountOf(spec, devices) == c.num_blocks);
    return;
  }
  const auto layout = PlanPool(spec, devices);
  REQUIRE(absl::IsResourceExhausted(layout.status()));
  CHECK(std::string(layout.status().message()).find("memory_utilization is ") == 0);
}

TEST_CASE("A size by utilization is the least over the devices") {
  PoolSpec spec = Utilizing(0.5);
  spec.devices = {"cuda:0", "cuda:1", "cuda:2"};
  const DeviceMemory big{.total_bytes = 100 * kMib, .free_bytes = 100 * kMib};
  const DeviceMemory small{.total_bytes = 60 * kMib, .free_bytes = 60 * kMib};
  CHECK(CountOf(spec, {big, big, big}) == 50);
  CHECK(CountOf(spec, {big, small, big}) == 30);
  CHECK(CountOf(spec, {small, big, big}) == 30);
}

TEST_CASE("A size by utilization without the devices' memory is INVALID_ARGUMENT") {
  const auto layout = PlanPool(Utilizing(0.25));
  REQUIRE(absl::IsInvalidArgument(layout.status()));
  CHECK(std::string(layout.status().message()).find("memory_utilization is 0.25: ") == 0);
}

TEST_CASE("Sizes near 2^64 bytes do not overflow the utilization") {
  PoolSpec spec = Utilizing(1.0);
  const auto layout = PlanPool(
      spec, std::vector<DeviceMemory>{{.total_bytes = UINT64_MAX, .free_bytes = 4 * kMib}});
  REQUIRE(layout.ok());
  CHECK(layout->num_blocks == 4);
}

// One block more never fits, and the blocks that are given do.
TEST_CASE("A size by bytes gives the most blocks that fit, over random geometries") {
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  for (int step = 0; step < 300; ++step) {
    CAPTURE(seed, step);
    PoolSpec spec = Raw(1 + random.Below(20), 16 * (1 + random.Below(500)));
    spec.num_layers = 1 + random.Below(20);
    spec.v_mode = static_cast<VMode>(random.Below(3));
    spec.memory_order = static_cast<MemoryOrder>(random.Below(2));
    if (random.OneIn(2)) spec.devices = {"cuda:0"};
    const uint64_t budget = 8 * kMib + random.Below(1U << 24);
    const auto sized = PlanPool(InBytes(spec, budget));
    REQUIRE(sized.ok());
    CHECK(sized->shard_bytes <= budget);
    spec.num_blocks = sized->num_blocks + 1;
    CHECK(PlanPool(spec)->shard_bytes > budget);
    spec.num_blocks = sized->num_blocks;
    CHECK(PlanPool(spec)->layers == sized->layers);
  }
}

}  // namespace
}  // namespace kvpool
