// A pool's memory on GPUs: that core/memory needs nothing of a device that a GPU does not do, and
// how few of the driver's calls whole blocks take.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/memory/memory.h"
#include "tests/unit/cuda/fixture.h"

namespace kvpool::cuda {
namespace {

constexpr uint32_t kBlocks = 24;
constexpr uint32_t kLayers = 12;

PoolSpec Spec(MemoryOrder order) {
  PoolSpec spec;
  spec.name = "gpu";
  spec.num_layers = kLayers;
  spec.num_kv_heads = 2;
  spec.head_dim = 16;
  spec.dtype = "bf16k_turbo4v";
  spec.num_blocks = kBlocks;
  spec.memory_order = order;
  spec.devices = {"cuda:0", "cuda:1"};
  return spec;
}

// A pool of two shards, each on a GPU of its own.
class GpuPool {
 public:
  explicit GpuPool(MemoryOrder order) {
    fakecuda_set("FAKECUDA_DEVICES", "2");
    auto second = CudaDevice::Open(gpu_.driver(), "cuda:1");
    REQUIRE(second.ok());
    second_ = *std::move(second);
    const auto layout = PlanPool(Spec(order));
    REQUIRE(layout.ok());
    const std::array<Device*, 2> devices = {&gpu_.device(), second_.get()};
    auto memory = Memory::Create(*layout, devices);
    REQUIRE(memory.ok());
    memory_ = *std::move(memory);
  }

  Memory& memory() { return *memory_; }

  absl::Status Fill(const std::vector<BlockId>& blocks, uint8_t value) {
    Ending ending;
    memory_->Fill(blocks, value, ending.Take());
    return ending.Wait();
  }
  absl::Status Copy(const std::vector<BlockId>& from, const std::vector<BlockId>& to) {
    Ending ending;
    memory_->Copy(from, *memory_, to, ending.Take());
    return ending.Wait();
  }
  // Whether every byte of the block, in both shards, is `value`.
  bool IsAll(BlockId block, std::byte value) {
    for (uint32_t shard = 0; shard < 2; ++shard) {
      for (uint32_t layer = 0; layer < kLayers; ++layer) {
        for (const Side side : {Side::kK, Side::kV}) {
          if (ReadSide(shard, block, layer, side) != Bytes(layer, side, value)) return false;
        }
      }
    }
    return true;
  }
  void WriteSide(uint32_t shard, BlockId block, uint32_t layer, Side side, std::byte value) {
    const std::vector<std::byte> bytes = Bytes(layer, side, value);
    Ending ending;
    memory_->Write(RangeOf(shard, block, layer, side), bytes, ending.Take());
    REQUIRE(ending.Wait().ok());
  }
  std::vector<std::byte> ReadSide(uint32_t shard, BlockId block, uint32_t layer, Side side) {
    std::vector<std::byte> bytes(SizeOf(layer, side));
    Ending ending;
    memory_->Read(RangeOf(shard, block, layer, side), bytes, ending.Take());
    REQUIRE(ending.Wait().ok());
    return bytes;
  }
  std::vector<std::byte> Bytes(uint32_t layer, Side side, std::byte value) {
    return std::vector<std::byte>(SizeOf(layer, side), value);
  }

 private:
  uint64_t SizeOf(uint32_t layer, Side side) {
    const LayerLayout& layout = memory_->layout().layers[layer];
    return side == Side::kK ? layout.k.block_bytes : layout.v->block_bytes;
  }
  PieceRange RangeOf(uint32_t shard, BlockId block, uint32_t layer, Side side) {
    return {.shard = shard,
            .block = block,
            .layer = layer,
            .side = side,
            .offset_bytes = 0,
            .size_bytes = SizeOf(layer, side)};
  }

  FakeGpu gpu_;
  std::unique_ptr<CudaDevice> second_;
  std::unique_ptr<Memory> memory_;
};

TEST_CASE("blocks on GPUs are filled over all layers, in every shard, and no others") {
  GpuPool pool(GENERATE(MemoryOrder::kLayerMajor, MemoryOrder::kBlockMajor));
  CHECK(pool.memory().layout().shard_bytes % kRegionPageBytes == 0);
  REQUIRE(pool.Fill({BlockId{3}, BlockId{1}, BlockId{7}}, 0xFF).ok());
  for (uint32_t i = 0; i < 9; ++i) {
    CAPTURE(i);
    const bool is_filled = i == 1 || i == 3 || i == 7;
    CHECK(pool.IsAll(BlockId{i}, is_filled ? std::byte{0xFF} : std::byte{0}));
  }
}

TEST_CASE("blocks on GPUs are copied whole, and sides are read and written by themselves") {
  GpuPool pool(GENERATE(MemoryOrder::kLayerMajor, MemoryOrder::kBlockMajor));
  pool.WriteSide(1, BlockId{2}, 5, Side::kV, std::byte{42});
  REQUIRE(pool.Copy({BlockId{2}, BlockId{0}}, {BlockId{9}, BlockId{4}}).ok());
  CHECK(pool.ReadSide(1, BlockId{9}, 5, Side::kV) == pool.Bytes(5, Side::kV, std::byte{42}));
  CHECK(pool.ReadSide(0, BlockId{9}, 5, Side::kV) == pool.Bytes(5, Side::kV, std::byte{0}));
  CHECK(pool.ReadSide(1, BlockId{9}, 5, Side::kK) == pool.Bytes(5, Side::kK, std::byte{0}));
  CHECK(pool.IsAll(BlockId{4}, std::byte{0}));
}

TEST_CASE("many blocks over all layers are one launch a shard") {
  GpuPool pool(MemoryOrder::kLayerMajor);
  std::vector<BlockId> even;
  std::vector<BlockId> odd;
  for (uint32_t i = 0; i + 1 < kBlocks; i += 2) {
    even.push_back(BlockId{i});
    odd.push_back(BlockId{i + 1});
  }
  REQUIRE(pool.Fill(even, 0).ok());
  CHECK(fakecuda_calls("cuLaunchKernel") == 2);
  REQUIRE(pool.Copy(even, odd).ok());
  CHECK(fakecuda_calls("cuLaunchKernel") == 4);
}

}  // namespace
}  // namespace kvpool::cuda
