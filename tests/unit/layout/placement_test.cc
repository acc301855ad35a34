#include "core/layout/placement.h"

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

PoolLayout Plan(const PoolSpec& spec) {
  const auto layout = PlanPool(spec);
  INFO(std::string(layout.status().message()));
  REQUIRE(layout.ok());
  return *layout;
}

// The sides that own bytes, in the order of the memory.
std::vector<SideLayout> OwnSides(const PoolLayout& layout) {
  std::vector<SideLayout> sides;
  for (const LayerLayout& layer : layout.layers) {
    sides.push_back(layer.k);
    if (layout.spec.v_mode == VMode::kSeparate) sides.push_back(*layer.v);
  }
  return sides;
}

TEST_CASE("In layer-major order a side is one run of blocks, each after the other's end") {
  PoolSpec spec = BaseSpec();
  spec.num_layers = 2;
  spec.dtype = "bf16k_turbo3v";  // K 16,384 and V 3,584 bytes.
  spec.num_blocks = 10;
  const PoolLayout layout = Plan(spec);
  CHECK(layout.layers[0].k.offset_bytes == 0);
  CHECK(layout.layers[0].k.stride_bytes == 16'384);
  CHECK(layout.layers[0].v->offset_bytes == 163'840);
  CHECK(layout.layers[0].v->stride_bytes == 3584);
  CHECK(layout.layers[1].k.offset_bytes == 199'680);
  CHECK(layout.layers[1].v->offset_bytes == 363'520);
  CHECK(layout.shard_bytes == 399'360);
}

TEST_CASE("In layer-major order each side starts at a multiple of 256 bytes") {
  PoolSpec spec = Raw(1, 100);
  spec.num_layers = 2;
  spec.num_blocks = 3;
  const PoolLayout layout = Plan(spec);
  CHECK(layout.layers[0].k.offset_bytes == 0);
  CHECK(layout.layers[0].v->offset_bytes == 512);  // 300 rounded up.
  CHECK(layout.layers[1].k.offset_bytes == 1024);
  CHECK(layout.layers[1].v->offset_bytes == 1536);
  CHECK(layout.layers[1].v->stride_bytes == 100);
  CHECK(layout.shard_bytes == 1836);
}

TEST_CASE("In block-major order a block is one run, K and V of each layer, without padding") {
  PoolSpec spec = BaseSpec();
  spec.num_layers = 2;
  spec.dtype = "bf16k_turbo3v";
  spec.num_blocks = 10;
  spec.memory_order = MemoryOrder::kBlockMajor;
  const PoolLayout layout = Plan(spec);
  CHECK(layout.block_bytes == 39'936);
  CHECK(layout.layers[0].k.offset_bytes == 0);
  CHECK(layout.layers[0].v->offset_bytes == 16'384);
  CHECK(layout.layers[1].k.offset_bytes == 19'968);
  CHECK(layout.layers[1].v->offset_bytes == 36'352);
  for (const SideLayout& side : OwnSides(layout)) CHECK(side.stride_bytes == 39'936);
  CHECK(layout.shard_bytes == 399'360);

  PoolSpec raw = Raw(1, 100);
  raw.memory_order = MemoryOrder::kBlockMajor;
  raw.num_blocks = 3;
  CHECK(Plan(raw).layers[0].v->offset_bytes == 100);
  CHECK(Plan(raw).shard_bytes == 600);
}

TEST_CASE("A V that aliases K is K, and none is none, in both orders") {
  PoolSpec spec = BaseSpec();
  for (const MemoryOrder order : {MemoryOrder::kLayerMajor, MemoryOrder::kBlockMajor}) {
    spec.memory_order = order;
    spec.v_mode = VMode::kAliasesK;
    const PoolLayout aliased = Plan(spec);
    for (const LayerLayout& layer : aliased.layers) CHECK(layer.v == layer.k);
    CHECK(aliased.block_bytes == 98'304);
    CHECK(aliased.shard_bytes == 4 * 98'304);

    spec.v_mode = VMode::kNone;
    const PoolLayout none = Plan(spec);
    for (const LayerLayout& layer : none.layers) CHECK_FALSE(layer.v.has_value());
    CHECK(none.shard_bytes == 4 * 98'304);
  }
}

TEST_CASE("On CUDA a shard is a multiple of 2 MiB") {
  constexpr uint64_t kTwoMib = 2'097'152;
  struct Case {
    uint32_t token_bytes;
    uint32_t num_blocks;
    uint64_t shard_bytes;
  };
  for (const Case& c : {Case{16, 1, kTwoMib}, Case{6912, 1, kTwoMib}, Case{1U << 21, 1, kTwoMib},
                        Case{1U << 20, 2, kTwoMib}, Case{(1U << 21) + 16, 1, 2 * kTwoMib},
                        Case{(1U << 21) - 16, 1, kTwoMib}}) {
    CAPTURE(c.token_bytes, c.num_blocks);
    PoolSpec spec = Raw(1, c.token_bytes);
    spec.v_mode = VMode::kNone;
    spec.num_blocks = c.num_blocks;
    CHECK(Plan(spec).shard_bytes == uint64_t{c.token_bytes} * c.num_blocks);
    spec.devices = {"cuda:0"};
    CHECK(Plan(spec).shard_bytes == c.shard_bytes);
  }
}

PoolSpec RandomSpec(test::Random& random) {
  static const std::vector<std::string> kSingles = {"fp32",   "fp16",   "bf16",   "fp8",   "nvfp4",
                                                    "turbo8", "turbo4", "turbo3", "turbo2"};
  PoolSpec spec = BaseSpec();
  spec.block_size = 1 + random.Below(32);
  spec.num_layers = 1 + random.Below(6);
  spec.num_kv_heads = 1 + random.Below(4);
  spec.head_dim = 16 * (1 + random.Below(8));
  spec.num_blocks = 1 + random.Below(9);
  spec.dtype = kSingles[random.Below(static_cast<uint32_t>(kSingles.size()))];
  spec.v_mode = static_cast<VMode>(random.Below(3));
  spec.memory_order = static_cast<MemoryOrder>(random.Below(2));
  spec.high_precision_layers = random.Below(3);
  if (spec.v_mode == VMode::kSeparate && random.OneIn(2)) spec.dtype = "fp8k_turbo3v";
  if (random.OneIn(2)) {
    const uint32_t layer = random.Below(spec.num_layers);
    spec.layers = {{.first = layer, .last = layer, .dtype = "bf16", .head_dim = 48}};
  }
  return spec;
}

// Marks every byte that a block owns: none is owned twice, none lies outside, and the free ones
// are alignment between sides alone.
TEST_CASE("No two sides of any blocks share a byte, and all lie inside the shard") {
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  for (int step = 0; step < 200; ++step) {
    CAPTURE(seed, step);
    const PoolLayout layout = Plan(RandomSpec(random));
    std::vector<bool> is_owned(layout.shard_bytes, false);
    uint64_t owned_bytes = 0;
    bool is_disjoint = true;
    for (const SideLayout& side : OwnSides(layout)) {
      REQUIRE(side.block_bytes == side.data_bytes + side.scale_bytes);
      for (uint64_t block = 0; block < layout.num_blocks; ++block) {
        const uint64_t start = side.offset_bytes + block * side.stride_bytes;
        REQUIRE(start + side.block_bytes <= layout.shard_bytes);
        for (uint64_t i = start; i < start + side.block_bytes; ++i) {
          is_disjoint = is_disjoint && !is_owned[i];
          is_owned[i] = true;
        }
        owned_bytes += side.block_bytes;
      }
    }
    CHECK(is_disjoint);
    CHECK(owned_bytes == layout.num_blocks * layout.block_bytes);
    CHECK(layout.shard_bytes - owned_bytes < 256 * OwnSides(layout).size());
  }
}

}  // namespace
}  // namespace kvpool
