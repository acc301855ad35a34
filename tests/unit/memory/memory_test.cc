#include "core/memory/memory.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/device/host_device.h"
#include "core/device/mapped_region.h"
#include "tests/support/catch.h"
#include "tests/support/fake_device.h"
#include "tests/support/outcome.h"
#include "tests/support/random.h"
#include "tests/unit/memory/fixture.h"
#include "tests/unit/memory/specs.h"

namespace kvpool {
namespace {

using test::Blocks;
using test::FakeDevice;
using test::Fixture;
using test::Outcome;
using test::Plan;
using test::Read;
using test::SmallSpec;
using test::Write;

// The sides of a layer that have bytes of their own.
std::vector<const SideLayout*> OwnSides(const PoolLayout& layout, const LayerLayout& layer) {
  std::vector<const SideLayout*> sides{&layer.k};
  if (layout.spec.v_mode == VMode::kSeparate) sides.push_back(&*layer.v);
  return sides;
}

uint64_t StartOf(const SideLayout& side, uint32_t block) {
  return side.offset_bytes + block * side.stride_bytes;
}

TEST_CASE("memory is a region of the layout's size on each device") {
  const Fixture fixture(SmallSpec("fp8", MemoryOrder::kLayerMajor, VMode::kSeparate, 7, 3));
  REQUIRE(fixture.memory->regions().size() == 3);
  for (const auto& region : fixture.memory->regions()) {
    CHECK(region->size_bytes() == fixture.memory->layout().shard_bytes);
  }
}

TEST_CASE("where one shard's allocation fails the others are given back") {
  const PoolLayout layout =
      Plan(SmallSpec("fp8", MemoryOrder::kLayerMajor, VMode::kSeparate, 7, 2));
  FakeDevice first;
  FakeDevice second;
  second.FailNextAllocation(absl::ResourceExhaustedError("told to"));
  const std::vector<Device*> devices{&first, &second};
  CHECK(Memory::Create(layout, devices).status() == absl::ResourceExhaustedError("told to"));
  CHECK(first.allocated_bytes() == 0);
  CHECK(second.allocated_bytes() == 0);
}

TEST_CASE("zero and poison fill every byte of the blocks and no neighbour's") {
  const std::string dtype = GENERATE(from_range(test::AllDtypes()));
  const MemoryOrder order = GENERATE(MemoryOrder::kLayerMajor, MemoryOrder::kBlockMajor);
  const VMode v_mode = GENERATE(VMode::kSeparate, VMode::kAliasesK, VMode::kNone);
  const uint8_t value = GENERATE(uint8_t{0}, uint8_t{0xFF});
  // A pair of formats needs a V of its own.
  if (v_mode != VMode::kSeparate && dtype.find("k_") != std::string::npos) return;
  CAPTURE(dtype, static_cast<int>(order), static_cast<int>(v_mode));
  const Fixture fixture(SmallSpec(dtype, order, v_mode));
  const PoolLayout& layout = fixture.memory->layout();
  std::vector<std::byte> expected = fixture.Snapshot();
  for (const uint32_t block : {0U, 3U, 4U, 6U}) {
    for (const LayerLayout& layer : layout.layers) {
      for (const SideLayout* side : OwnSides(layout, layer)) {
        std::fill_n(expected.begin() + static_cast<ptrdiff_t>(StartOf(*side, block)),
                    side->block_bytes, std::byte{value});
      }
    }
  }
  Outcome outcome;
  fixture.memory->Fill(Blocks({4, 0, 6, 3}), value, outcome.Take());
  REQUIRE(outcome.ok());
  CHECK(fixture.Snapshot() == expected);
}

TEST_CASE("a copy moves every byte of a block, its scales too, and no other byte") {
  const std::string dtype = GENERATE(from_range(test::AllDtypes()));
  const MemoryOrder order = GENERATE(MemoryOrder::kLayerMajor, MemoryOrder::kBlockMajor);
  const VMode v_mode = GENERATE(VMode::kSeparate, VMode::kAliasesK, VMode::kNone);
  if (v_mode != VMode::kSeparate && dtype.find("k_") != std::string::npos) return;
  CAPTURE(dtype, static_cast<int>(order), static_cast<int>(v_mode));
  const uint64_t seed = test::Seed();
  CAPTURE(seed);
  test::Random random(seed);
  const Fixture source(SmallSpec(dtype, order, v_mode, 7));
  const Fixture other(SmallSpec(dtype, order, v_mode, 4));
  for (std::byte& byte : FakeDevice::Bytes(*source.memory->regions()[0])) {
    byte = static_cast<std::byte>(random.Next());
  }
  const std::vector<std::byte> from = source.Snapshot();
  std::vector<std::byte> expected = other.Snapshot();
  const std::vector<std::pair<uint32_t, uint32_t>> pairs{{5, 0}, {6, 1}, {2, 3}};
  const PoolLayout& from_layout = source.memory->layout();
  const PoolLayout& to_layout = other.memory->layout();
  for (const auto& [from_block, to_block] : pairs) {
    for (size_t layer = 0; layer < from_layout.layers.size(); ++layer) {
      const auto from_sides = OwnSides(from_layout, from_layout.layers[layer]);
      const auto to_sides = OwnSides(to_layout, to_layout.layers[layer]);
      for (size_t side = 0; side < from_sides.size(); ++side) {
        for (uint64_t i = 0; i < from_sides[side]->block_bytes; ++i) {
          expected.at(StartOf(*to_sides[side], to_block) + i) =
              from.at(StartOf(*from_sides[side], from_block) + i);
        }
      }
    }
  }
  Outcome outcome;
  source.memory->Copy(Blocks({5, 6, 2}), *other.memory, Blocks({0, 1, 3}), outcome.Take());
  REQUIRE(outcome.ok());
  CHECK(other.Snapshot() == expected);
  CHECK(source.Snapshot() == from);
}

TEST_CASE("a copy within one memory gives equal blocks, scales too") {
  const Fixture fixture(SmallSpec("turbo8", MemoryOrder::kLayerMajor, VMode::kSeparate));
  const SideLayout& side = fixture.memory->layout().layers[1].k;
  REQUIRE(side.scale_bytes > 0);
  const PieceRange scales{.block = BlockId{2},
                          .layer = 1,
                          .side = Side::kK,
                          .offset_bytes = side.data_bytes,
                          .size_bytes = side.scale_bytes};
  REQUIRE(Write(*fixture.memory, scales, std::byte{0x3C}).ok());
  Outcome outcome;
  fixture.memory->Copy(Blocks({2}), *fixture.memory, Blocks({5}), outcome.Take());
  REQUIRE(outcome.ok());
  PieceRange copied = scales;
  copied.block = BlockId{5};
  CHECK(Read(*fixture.memory, copied) == std::vector<std::byte>(side.scale_bytes, std::byte{0x3C}));
}

TEST_CASE("fills and copies reach every shard, pieces reach theirs") {
  const Fixture fixture(SmallSpec("bf16", MemoryOrder::kBlockMajor, VMode::kSeparate, 4, 3));
  Memory& memory = *fixture.memory;
  for (uint32_t shard = 0; shard < 3; ++shard) {
    const PieceRange range{.shard = shard, .block = BlockId{1}, .size_bytes = 8};
    REQUIRE(Write(memory, range, static_cast<std::byte>(shard + 1)).ok());
  }
  Outcome copied;
  memory.Copy(Blocks({1}), memory, Blocks({3}), copied.Take());
  REQUIRE(copied.ok());
  Outcome filled;
  memory.Fill(Blocks({1}), 0xFF, filled.Take());
  REQUIRE(filled.ok());
  for (uint32_t shard = 0; shard < 3; ++shard) {
    CAPTURE(shard);
    CHECK(Read(memory, {.shard = shard, .block = BlockId{3}, .size_bytes = 8}) ==
          std::vector<std::byte>(8, static_cast<std::byte>(shard + 1)));
    CHECK(Read(memory, {.shard = shard, .block = BlockId{1}, .size_bytes = 8}) ==
          std::vector<std::byte>(8, std::byte{0xFF}));
  }
}

TEST_CASE("each side is written and read with its own size where K and V differ") {
  const MemoryOrder order = GENERATE(MemoryOrder::kLayerMajor, MemoryOrder::kBlockMajor);
  const Fixture fixture(SmallSpec("bf16k_turbo2v", order, VMode::kSeparate));
  Memory& memory = *fixture.memory;
  const PoolLayout& layout = memory.layout();
  REQUIRE(layout.layers[0].k.block_bytes != layout.layers[0].v->block_bytes);
  const auto range_of = [&](uint32_t block, uint32_t layer, Side side) {
    const LayerLayout& sides = layout.layers[layer];
    return PieceRange{.block = BlockId{block},
                      .layer = layer,
                      .side = side,
                      .size_bytes = side == Side::kK ? sides.k.block_bytes : sides.v->block_bytes};
  };
  const auto value_of = [](uint32_t block, uint32_t layer, Side side) {
    return static_cast<std::byte>(1 + block * 8 + layer * 2 + static_cast<uint32_t>(side));
  };
  // Every side of every block at first, so that a wrong stride shows as another block's value.
  for (uint32_t block = 0; block < layout.num_blocks; ++block) {
    for (uint32_t layer = 0; layer < 3; ++layer) {
      for (const Side side : {Side::kK, Side::kV}) {
        REQUIRE(Write(memory, range_of(block, layer, side), value_of(block, layer, side)).ok());
      }
    }
  }
  for (const uint32_t block : {0U, layout.num_blocks - 1}) {
    for (uint32_t layer = 0; layer < 3; ++layer) {
      for (const Side side : {Side::kK, Side::kV}) {
        CAPTURE(block, layer, static_cast<int>(side));
        const PieceRange range = range_of(block, layer, side);
        const std::vector<std::byte> expected(range.size_bytes, value_of(block, layer, side));
        CHECK(Read(memory, range) == expected);
        // The same bytes where the layout, which mappings go by, says that they are.
        const SideLayout& sides =
            side == Side::kK ? layout.layers[layer].k : *layout.layers[layer].v;
        const auto region = FakeDevice::Bytes(*memory.regions()[0]);
        CHECK(
            std::ranges::equal(region.subspan(StartOf(sides, block), sides.block_bytes), expected));
      }
    }
  }
}

TEST_CASE("what a mapping writes at the layout's offsets is what is read, and the reverse") {
  InlineExecutor executor;
  HostDevice host(executor);
  Device* const device = &host;
  const PoolLayout layout = Plan(SmallSpec("turbo3", MemoryOrder::kLayerMajor, VMode::kSeparate));
  const auto memory = Memory::Create(layout, std::span(&device, 1));
  REQUIRE(memory.ok());
  auto mapping = MappedRegion::Map((*memory)->regions()[0]->shared_fd(), layout.shard_bytes,
                                   MappedRegion::Access::kReadWrite);
  REQUIRE(mapping.ok());
  for (const uint32_t block : {0U, layout.num_blocks - 1}) {
    for (uint32_t layer = 0; layer < 3; ++layer) {
      const SideLayout& side = *layout.layers[layer].v;
      const auto value = static_cast<std::byte>(0x10 + block * 3 + layer);
      std::ranges::fill(mapping->mutable_bytes().subspan(StartOf(side, block), side.block_bytes),
                        value);
      const PieceRange range{.block = BlockId{block},
                             .layer = layer,
                             .side = Side::kV,
                             .size_bytes = side.block_bytes};
      CHECK(Read(**memory, range) == std::vector<std::byte>(side.block_bytes, value));
      REQUIRE(Write(**memory, range, ~value).ok());
      CHECK(mapping->bytes()[StartOf(side, block) + side.block_bytes - 1] == ~value);
    }
  }
}

TEST_CASE("a part of a side is read and written at its offset") {
  const Fixture fixture(SmallSpec("fp8", MemoryOrder::kLayerMajor, VMode::kSeparate));
  const SideLayout& side = *fixture.memory->layout().layers[2].v;
  std::vector<std::byte> expected = fixture.Snapshot();
  const PieceRange range{.block = BlockId{3},
                         .layer = 2,
                         .side = Side::kV,
                         .offset_bytes = side.block_bytes - 3,
                         .size_bytes = 3};
  REQUIRE(Write(*fixture.memory, range, std::byte{9}).ok());
  std::fill_n(expected.begin() + static_cast<ptrdiff_t>(StartOf(side, 4) - 3), 3, std::byte{9});
  CHECK(fixture.Snapshot() == expected);
  PieceRange nothing = range;
  nothing.offset_bytes = side.block_bytes;
  nothing.size_bytes = 0;
  CHECK(fixture.memory->Check(nothing).ok());
  CHECK(Read(*fixture.memory, nothing).empty());
}

TEST_CASE("V that aliases K is K's bytes") {
  const Fixture fixture(SmallSpec("fp8", MemoryOrder::kLayerMajor, VMode::kAliasesK));
  const PieceRange k{.block = BlockId{1}, .layer = 1, .side = Side::kK, .size_bytes = 16};
  PieceRange v = k;
  v.side = Side::kV;
  REQUIRE(fixture.memory->Check(v).ok());
  REQUIRE(Write(*fixture.memory, k, std::byte{0x66}).ok());
  CHECK(Read(*fixture.memory, v) == std::vector<std::byte>(16, std::byte{0x66}));
}

TEST_CASE("a range that names what is not there is an invalid argument that names it") {
  const Fixture fixture(SmallSpec("fp8", MemoryOrder::kLayerMajor, VMode::kNone, 7, 2));
  const Memory& memory = *fixture.memory;
  const PieceRange good{.shard = 1, .block = BlockId{6}, .layer = 2, .size_bytes = 1};
  REQUIRE(memory.Check(good).ok());
  const auto check = [&](const PieceRange& range, const std::string& text) {
    const absl::Status status = memory.Check(range);
    CAPTURE(status.message());
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(std::string(status.message()).find(text) != std::string::npos);
  };
  PieceRange range = good;
  range.shard = 2;
  check(range, "shard 2");
  range = good;
  range.block = BlockId{7};
  check(range, "block 7");
  range.block = BlockId{0xFFFFFFFF};
  check(range, "block 4294967295");
  range = good;
  range.layer = 3;
  check(range, "layer 3");
  range = good;
  range.side = Side::kV;
  check(range, "side v");
  range.side = Side{7};
  check(range, "side 7");
}

TEST_CASE("a range that passes the end of its side is out of range, also where its end wraps") {
  const Fixture fixture(SmallSpec("bf16k_turbo2v", MemoryOrder::kLayerMajor, VMode::kSeparate));
  const SideLayout& side = *fixture.memory->layout().layers[0].v;
  struct Case {
    uint64_t offset;
    uint64_t size;
  };
  const uint64_t end = side.block_bytes;
  const auto [offset, size] = GENERATE_REF(values<Case>({{0, end + 1},
                                                         {end, 1},
                                                         {end + 1, 0},
                                                         {uint64_t{1} << 32, 1},
                                                         {0, uint64_t{1} << 32},
                                                         {~uint64_t{0}, 1},
                                                         {~uint64_t{0}, 2},
                                                         {1, ~uint64_t{0}},
                                                         {uint64_t{1} << 63, uint64_t{1} << 63},
                                                         {~uint64_t{0} - end + 1, end}}));
  CAPTURE(offset, size);
  const PieceRange range{.side = Side::kV, .offset_bytes = offset, .size_bytes = size};
  CHECK(fixture.memory->Check(range).code() == absl::StatusCode::kOutOfRange);
}

TEST_CASE("offsets of 2^32 and more reach the right bytes") {
  const MemoryOrder order = GENERATE(MemoryOrder::kLayerMajor, MemoryOrder::kBlockMajor);
  PoolSpec spec = SmallSpec("raw", order, VMode::kSeparate, 3);
  // 16 tokens of 2^28 + 1 bytes: 4 GiB and 16 bytes a side. What is not touched costs nothing.
  spec.raw_token_bytes = (1U << 28) + 1;
  const Fixture fixture(spec);
  Memory& memory = *fixture.memory;
  const SideLayout& side = *memory.layout().layers[2].v;
  REQUIRE(side.block_bytes == (uint64_t{1} << 32) + 16);
  const PieceRange range{.block = BlockId{2},
                         .layer = 2,
                         .side = Side::kV,
                         .offset_bytes = uint64_t{1} << 32,
                         .size_bytes = 16};
  REQUIRE(memory.Check(range).ok());
  REQUIRE(Write(memory, range, std::byte{0x42}).ok());
  CHECK(Read(memory, range) == std::vector<std::byte>(16, std::byte{0x42}));
  const auto region = FakeDevice::Bytes(*memory.regions()[0]);
  CHECK(region[StartOf(side, 2) + (uint64_t{1} << 32)] == std::byte{0x42});
  CHECK(region[StartOf(side, 2)] == std::byte{0});
  PieceRange beyond = range;
  beyond.size_bytes = 17;
  CHECK(memory.Check(beyond).code() == absl::StatusCode::kOutOfRange);
}

TEST_CASE("Sum of a device that does not add up is unimplemented, at once") {
  Fixture fixture(SmallSpec("bf16", MemoryOrder::kLayerMajor, VMode::kSeparate));
  const std::vector<PieceRange> ranges{{.layer = 1, .side = Side::kK, .size_bytes = 16}};
  std::vector<ExtentSums> sums(1);
  Outcome outcome;
  fixture.memory->Sum(ranges, Dtype::kBf16, sums, outcome.Take());
  REQUIRE(outcome.is_done());
  CHECK(absl::IsUnimplemented(outcome.status()));
}

}  // namespace
}  // namespace kvpool
