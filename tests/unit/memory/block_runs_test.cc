#include "core/memory/block_runs.h"

#include <algorithm>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/random.h"
#include "tests/unit/memory/specs.h"

namespace kvpool {
namespace {

using test::Plan;
using test::SmallSpec;

std::vector<BlockId> Blocks(std::initializer_list<uint32_t> ids) {
  std::vector<BlockId> blocks;
  for (const uint32_t id : ids) blocks.push_back(BlockId{id});
  return blocks;
}

// How often each byte of a region is in one of the extents.
std::vector<int> Coverage(uint64_t region_bytes, const std::vector<Extent>& extents) {
  std::vector<int> coverage(region_bytes);
  for (const Extent& extent : extents) {
    for (uint64_t i = 0; i < extent.size_bytes; ++i) ++coverage.at(extent.offset_bytes + i);
  }
  return coverage;
}

TEST_CASE("a block-major block is one extent, and consecutive blocks are one in any order") {
  const PoolLayout layout = Plan(SmallSpec("turbo4", MemoryOrder::kBlockMajor, VMode::kSeparate));
  const BlockRuns runs(layout);
  CHECK(runs.Extents(Blocks({3})).size() == 1);
  const auto extents = runs.Extents(Blocks({5, 2, 3, 1}));
  REQUIRE(extents.size() == 2);
  CHECK(extents[0].offset_bytes == layout.block_bytes);
  CHECK(extents[0].size_bytes == 3 * layout.block_bytes);
  CHECK(extents[1].offset_bytes == 5 * layout.block_bytes);
  CHECK(extents[1].size_bytes == layout.block_bytes);
}

TEST_CASE("a layer-major block is an extent a side, and consecutive blocks merge in each side") {
  const PoolLayout layout = Plan(SmallSpec("turbo4", MemoryOrder::kLayerMajor, VMode::kSeparate));
  const BlockRuns runs(layout);
  CHECK(runs.Extents(Blocks({3})).size() == 6);
  const auto extents = runs.Extents(Blocks({5, 2, 3, 1}));
  REQUIRE(extents.size() == 12);
  CHECK(extents[2].offset_bytes ==
        layout.layers[0].v->offset_bytes + layout.layers[0].v->stride_bytes);
  CHECK(extents[2].size_bytes == 3 * layout.layers[0].v->block_bytes);
}

TEST_CASE("V that aliases K or is not there adds no extent") {
  const VMode v_mode = GENERATE(VMode::kAliasesK, VMode::kNone);
  const BlockRuns runs(Plan(SmallSpec("fp8", MemoryOrder::kLayerMajor, v_mode)));
  CHECK(runs.Extents(Blocks({0})).size() == 3);
}

TEST_CASE("no blocks are no extents") {
  const BlockRuns runs(Plan(SmallSpec("fp8", MemoryOrder::kLayerMajor, VMode::kSeparate)));
  CHECK(runs.Extents({}).empty());
  CHECK(runs.CopyExtents({}, runs, {}).empty());
}

TEST_CASE("extents cover each byte of the blocks once and no other byte") {
  const std::string dtype = GENERATE(from_range(test::AllDtypes()));
  const MemoryOrder order = GENERATE(MemoryOrder::kLayerMajor, MemoryOrder::kBlockMajor);
  const VMode v_mode = GENERATE(VMode::kSeparate, VMode::kAliasesK, VMode::kNone);
  if (v_mode != VMode::kSeparate && dtype.find("k_") != std::string::npos) return;
  CAPTURE(dtype, static_cast<int>(order), static_cast<int>(v_mode));
  const PoolLayout layout = Plan(SmallSpec(dtype, order, v_mode));
  const auto blocks = Blocks({6, 0, 2, 3});
  std::vector<int> expected(layout.shard_bytes);
  for (const LayerLayout& layer : layout.layers) {
    for (const BlockId block : blocks) {
      const auto cover = [&](const SideLayout& side) {
        const uint64_t start = side.offset_bytes + ToIndex(block) * side.stride_bytes;
        for (uint64_t i = 0; i < side.block_bytes; ++i) ++expected.at(start + i);
      };
      cover(layer.k);
      if (v_mode == VMode::kSeparate) cover(*layer.v);
    }
  }
  CHECK(Coverage(layout.shard_bytes, BlockRuns(layout).Extents(blocks)) == expected);
}

TEST_CASE("a copy's extents merge where both ends go on") {
  const MemoryOrder order = GENERATE(MemoryOrder::kLayerMajor, MemoryOrder::kBlockMajor);
  const size_t runs_a_block = order == MemoryOrder::kLayerMajor ? 6 : 1;
  const BlockRuns runs(Plan(SmallSpec("turbo3", order, VMode::kSeparate, 16)));
  // 1 -> 9, 2 -> 10 go on together; 3 -> 12 does not; 4 -> 13 goes on from there.
  CHECK(runs.CopyExtents(Blocks({4, 2, 3, 1}), runs, Blocks({13, 10, 12, 9})).size() ==
        2 * runs_a_block);
}

TEST_CASE("blocks are copied between pools of other sizes, down to one block") {
  const MemoryOrder order = GENERATE(MemoryOrder::kLayerMajor, MemoryOrder::kBlockMajor);
  // 512 bytes a side, so that the sides of a pool of one block touch in layer-major order too.
  PoolSpec spec = SmallSpec("bf16", order, VMode::kSeparate, 1);
  spec.layers.clear();
  spec.v_head_dim = 8;
  const PoolLayout one = Plan(spec);
  spec.num_blocks = 5;
  const PoolLayout five = Plan(spec);
  REQUIRE(one.fingerprint == five.fingerprint);
  const auto extents = BlockRuns(one).CopyExtents(Blocks({0}), BlockRuns(five), Blocks({4}));
  uint64_t bytes = 0;
  for (const CopyExtent& extent : extents) bytes += extent.size_bytes;
  CHECK(bytes == one.block_bytes);
  CHECK(extents.size() == (order == MemoryOrder::kLayerMajor ? 6 : 1));
}

}  // namespace
}  // namespace kvpool
