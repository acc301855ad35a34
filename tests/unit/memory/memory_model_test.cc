// Memory against the simplest model of a pool's bytes: an array for each side of each block.

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "core/device/host_device.h"
#include "core/memory/memory.h"
#include "tests/support/catch.h"
#include "tests/support/outcome.h"
#include "tests/support/random.h"
#include "tests/unit/memory/specs.h"

namespace kvpool {
namespace {

using Bytes = std::vector<std::byte>;

// A pool's bytes, side by side of block by block. V that aliases K is K.
class Model {
 public:
  explicit Model(const PoolLayout& layout) : layout_(layout) {}

  Bytes& BytesOf(uint32_t shard, uint32_t block, uint32_t layer, Side side) {
    if (layout_.spec.v_mode == VMode::kAliasesK) side = Side::kK;
    const LayerLayout& sides = layout_.layers[layer];
    Bytes& bytes = bytes_[{shard, block, layer, static_cast<uint32_t>(side)}];
    bytes.resize(side == Side::kK ? sides.k.block_bytes : sides.v->block_bytes);
    return bytes;
  }
  std::vector<Side> sides() const {
    if (layout_.spec.v_mode == VMode::kNone) return {Side::kK};
    return {Side::kK, Side::kV};
  }
  const PoolLayout& layout() const { return layout_; }

 private:
  const PoolLayout layout_;
  std::map<std::array<uint32_t, 4>, Bytes> bytes_;
};

// Calls `visit` with every side of every layer of one block in every shard.
template <typename Visit>
void ForEachSide(const Model& model, Visit visit) {
  for (uint32_t shard = 0; shard < model.layout().num_shards(); ++shard) {
    for (uint32_t layer = 0; layer < model.layout().layers.size(); ++layer) {
      for (const Side side : model.sides()) visit(shard, layer, side);
    }
  }
}

// A memory and its model, which random calls are made on alike.
struct Pair {
  Pair(const PoolSpec& spec, Device& device) : model(test::Plan(spec)) {
    const std::vector<Device*> devices(model.layout().num_shards(), &device);
    auto created = Memory::Create(model.layout(), devices);
    REQUIRE(created.ok());
    memory = *std::move(created);
  }

  // Up to four distinct blocks.
  std::vector<BlockId> PickBlocks(test::Random& random, size_t count) const {
    std::vector<BlockId> blocks;
    while (blocks.size() < count) {
      const BlockId block{random.Below(model.layout().num_blocks)};
      if (std::ranges::find(blocks, block) == blocks.end()) blocks.push_back(block);
    }
    return blocks;
  }

  void Fill(test::Random& random) {
    const auto blocks = PickBlocks(random, random.Below(5));
    const auto value = static_cast<uint8_t>(random.Next());
    test::Outcome outcome;
    memory->Fill(blocks, value, outcome.Take());
    REQUIRE(outcome.ok());
    for (const BlockId block : blocks) {
      ForEachSide(model, [&](uint32_t shard, uint32_t layer, Side side) {
        std::ranges::fill(model.BytesOf(shard, ToIndex(block), layer, side), std::byte{value});
      });
    }
  }

  void CopyTo(Pair& other, test::Random& random) {
    const size_t count = random.Below(5);
    auto sources = PickBlocks(random, count);
    auto destinations = other.PickBlocks(random, count);
    const auto overlaps = [&](BlockId block) {
      return std::ranges::find(sources, block) != sources.end();
    };
    // A block that is source and destination of one copy is the caller's error.
    if (&other == this && std::ranges::any_of(destinations, overlaps)) return;
    test::Outcome outcome;
    memory->Copy(sources, *other.memory, destinations, outcome.Take());
    REQUIRE(outcome.ok());
    for (size_t i = 0; i < count; ++i) {
      ForEachSide(model, [&](uint32_t shard, uint32_t layer, Side side) {
        other.model.BytesOf(shard, ToIndex(destinations[i]), layer, side) =
            model.BytesOf(shard, ToIndex(sources[i]), layer, side);
      });
    }
  }

  PieceRange PickRange(test::Random& random) {
    PieceRange range{
        .shard = random.Below(model.layout().num_shards()),
        .block = BlockId{random.Below(model.layout().num_blocks)},
        .layer = random.Below(static_cast<uint32_t>(model.layout().layers.size())),
        .side = model.sides()[random.Below(static_cast<uint32_t>(model.sides().size()))]};
    const auto bytes = static_cast<uint32_t>(BytesOf(range).size());
    range.offset_bytes = random.Below(bytes + 1);
    range.size_bytes = random.Below(bytes - static_cast<uint32_t>(range.offset_bytes) + 1);
    return range;
  }

  Bytes& BytesOf(const PieceRange& range) {
    return model.BytesOf(range.shard, ToIndex(range.block), range.layer, range.side);
  }

  void Write(test::Random& random) {
    const PieceRange range = PickRange(random);
    REQUIRE(memory->Check(range).ok());
    Bytes bytes(range.size_bytes);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Next());
    test::Outcome outcome;
    memory->Write(range, bytes, outcome.Take());
    REQUIRE(outcome.ok());
    std::ranges::copy(bytes, BytesOf(range).begin() + static_cast<ptrdiff_t>(range.offset_bytes));
  }

  // Whether a random piece reads as the model has it.
  void Read(test::Random& random) {
    const PieceRange range = PickRange(random);
    Bytes bytes(range.size_bytes);
    test::Outcome outcome;
    memory->Read(range, bytes, outcome.Take());
    REQUIRE(outcome.ok());
    const auto expected = std::span(BytesOf(range)).subspan(range.offset_bytes, range.size_bytes);
    REQUIRE(std::ranges::equal(bytes, expected));
  }

  // Whether every byte of every block is as the model has it.
  void Compare() {
    for (uint32_t block = 0; block < model.layout().num_blocks; ++block) {
      ForEachSide(model, [&](uint32_t shard, uint32_t layer, Side side) {
        const Bytes& expected = model.BytesOf(shard, block, layer, side);
        Bytes bytes(expected.size());
        test::Outcome outcome;
        memory->Read({.shard = shard,
                      .block = BlockId{block},
                      .layer = layer,
                      .side = side,
                      .size_bytes = bytes.size()},
                     bytes, outcome.Take());
        REQUIRE(outcome.ok());
        REQUIRE(bytes == expected);
      });
    }
  }

  Model model;
  std::unique_ptr<Memory> memory;
};

TEST_CASE("memory does what arrays of bytes do, whatever the layout") {
  const std::string dtype = GENERATE("bf16", "turbo3", "bf16k_turbo2v", "raw");
  const MemoryOrder order = GENERATE(MemoryOrder::kLayerMajor, MemoryOrder::kBlockMajor);
  const VMode v_mode = GENERATE(VMode::kSeparate, VMode::kAliasesK, VMode::kNone);
  if (v_mode != VMode::kSeparate && dtype == "bf16k_turbo2v") return;
  const uint64_t seed = test::Seed();
  CAPTURE(seed, dtype, static_cast<int>(order), static_cast<int>(v_mode));
  test::Random random(seed);
  InlineExecutor executor;
  HostDevice device(executor);
  Pair first(test::SmallSpec(dtype, order, v_mode, 9, 2), device);
  Pair second(test::SmallSpec(dtype, order, v_mode, 5, 2), device);
  for (int step = 0; step < 300; ++step) {
    CAPTURE(step);
    Pair& pair = random.OneIn(2) ? first : second;
    Pair& other = random.OneIn(2) ? first : second;
    switch (random.Below(4)) {
      case 0:
        pair.Fill(random);
        break;
      case 1:
        pair.CopyTo(other, random);
        break;
      case 2:
        pair.Write(random);
        break;
      default:
        pair.Read(random);
    }
    if (step % 50 == 49) {
      first.Compare();
      second.Compare();
    }
  }
}

}  // namespace
}  // namespace kvpool
