// Blocks between pools on different kinds of devices, and on different GPUs.
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/device/host_device.h"
#include "core/executor.h"
#include "core/memory/memory.h"
#include "tests/unit/cuda/fixture.h"
#include "tests/unit/cuda/says.h"

namespace kvpool::cuda {
namespace {

constexpr uint32_t kBlocks = 128;
constexpr uint32_t kLayers = 8;

// Of two shards, and sides of 208 bytes.
PoolSpec Spec(MemoryOrder order, const std::string& first_device) {
  PoolSpec spec;
  spec.name = "swap";
  spec.num_layers = kLayers;
  spec.dtype = "raw";
  spec.raw_token_bytes = 13;
  spec.num_blocks = kBlocks;
  spec.memory_order = order;
  spec.devices = {first_device, first_device};
  if (first_device != kHostDevice) spec.devices = {"cuda:0", "cuda:1"};
  return spec;
}

// Two GPUs and the host, and pools on either.
class Machine {
 public:
  Machine() {
    fakecuda_set("FAKECUDA_DEVICES", "2");
    auto opened = CudaDevice::Open(gpu_.driver(), "cuda:1");
    REQUIRE(opened.ok());
    second_ = *std::move(opened);
  }

  std::unique_ptr<Memory> MakeOnGpus(MemoryOrder order, bool is_swapped = false) {
    std::array<Device*, 2> devices = {&gpu_.device(), second_.get()};
    if (is_swapped) std::swap(devices[0], devices[1]);
    return Make(Spec(order, "cuda:0"), devices);
  }
  std::unique_ptr<Memory> MakeOnHost(MemoryOrder order) {
    const std::array<Device*, 2> devices = {&host_, &host_};
    return Make(Spec(order, std::string(kHostDevice)), devices);
  }

 private:
  static std::unique_ptr<Memory> Make(const PoolSpec& spec, std::span<Device* const> devices) {
    const auto layout = PlanPool(spec);
    REQUIRE(layout.ok());
    auto memory = Memory::Create(*layout, devices);
    REQUIRE(memory.ok());
    return *std::move(memory);
  }

  FakeGpu gpu_;
  std::unique_ptr<CudaDevice> second_;
  InlineExecutor executor_;
  HostDevice host_{executor_};
};

absl::Status Copy(Memory& from, std::span<const BlockId> sources, Memory& to,
                  std::span<const BlockId> destinations) {
  Ending ending;
  from.Copy(sources, to, destinations, ending.Take());
  return ending.Wait();
}

// The whole of a block, which `visit` is given side by side.
template <typename Visit>
void ForEachSide(const Memory& memory, BlockId block, Visit visit) {
  for (uint32_t shard = 0; shard < 2; ++shard) {
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      for (const Side side : {Side::kK, Side::kV}) {
        visit(PieceRange{.shard = shard,
                         .block = block,
                         .layer = layer,
                         .side = side,
                         .offset_bytes = 0,
                         .size_bytes = memory.layout().layers[layer].k.block_bytes});
      }
    }
  }
}

// Bytes that are the block's, the side's and the place's own.
void Number(Memory& memory, BlockId block) {
  ForEachSide(memory, block, [&](const PieceRange& range) {
    std::vector<std::byte> bytes(range.size_bytes);
    const uint32_t start = ToIndex(block) * 7 + range.shard * 101 + range.layer * 31 +
                           static_cast<uint32_t>(range.side) * 57;
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(start + i * 3);
    Ending ending;
    memory.Write(range, bytes, ending.Take());
    REQUIRE(ending.Wait().ok());
  });
}

std::vector<std::byte> BytesOf(Memory& memory, BlockId block) {
  std::vector<std::byte> all;
  ForEachSide(memory, block, [&](const PieceRange& range) {
    std::vector<std::byte> bytes(range.size_bytes);
    Ending ending;
    memory.Read(range, bytes, ending.Take());
    REQUIRE(ending.Wait().ok());
    all.insert(all.end(), bytes.begin(), bytes.end());
  });
  return all;
}

const std::vector<BlockId> kSources{BlockId{2}, BlockId{9}, BlockId{3}, BlockId{100}};
const std::vector<BlockId> kDestinations{BlockId{5}, BlockId{4}, BlockId{127}, BlockId{6}};

// Copies, and checks that the blocks came over and their neighbours are as they were.
void CheckCopies(Memory& from, Memory& to) {
  for (const BlockId block : kSources) Number(from, block);
  Number(to, BlockId{7});
  const std::vector<std::byte> neighbour = BytesOf(to, BlockId{7});
  REQUIRE(Copy(from, kSources, to, kDestinations).ok());
  for (size_t i = 0; i < kSources.size(); ++i) {
    CAPTURE(i);
    CHECK(BytesOf(to, kDestinations[i]) == BytesOf(from, kSources[i]));
  }
  CHECK(BytesOf(from, kSources[0]) != BytesOf(from, kSources[1]));
  CHECK(BytesOf(to, BlockId{7}) == neighbour);
}

TEST_CASE("blocks go from the host to GPUs, shard by shard, in either order of memory") {
  const auto from_order = GENERATE(MemoryOrder::kLayerMajor, MemoryOrder::kBlockMajor);
  Machine machine;
  const auto from = machine.MakeOnHost(from_order);
  const auto to = machine.MakeOnGpus(from_order);
  CheckCopies(*from, *to);
  CHECK(fakecuda_calls("cuMemcpyPeerAsync") == 0);
}

TEST_CASE("blocks go from GPUs to the host, shard by shard, in either order of memory") {
  const auto order = GENERATE(MemoryOrder::kLayerMajor, MemoryOrder::kBlockMajor);
  Machine machine;
  const auto from = machine.MakeOnGpus(order);
  const auto to = machine.MakeOnHost(order);
  CheckCopies(*from, *to);
}

TEST_CASE("blocks go from each GPU to another") {
  Machine machine;
  const auto from = machine.MakeOnGpus(MemoryOrder::kBlockMajor);
  const auto to = machine.MakeOnGpus(MemoryOrder::kBlockMajor, /*is_swapped=*/true);
  CheckCopies(*from, *to);
  CHECK(fakecuda_calls("cuMemcpyPeerAsync") > 0);
}

TEST_CASE("64 blocks of 8 layers between the host and a GPU are a launch a shard") {
  Machine machine;
  const auto host = machine.MakeOnHost(MemoryOrder::kLayerMajor);
  const auto gpus = machine.MakeOnGpus(MemoryOrder::kLayerMajor);
  std::vector<BlockId> even;
  std::vector<BlockId> odd;
  for (uint32_t i = 0; i < kBlocks; i += 2) {
    even.push_back(BlockId{i});
    odd.push_back(BlockId{i + 1});
  }
  const bool is_to_host = GENERATE(true, false);
  const uint64_t copies = fakecuda_calls("cuMemcpyBatchAsync") + fakecuda_calls("cuMemcpyAsync");
  REQUIRE((is_to_host ? Copy(*gpus, even, *host, odd) : Copy(*host, even, *gpus, odd)).ok());
  CHECK(fakecuda_calls("cuLaunchKernel") == 2);
  CHECK(fakecuda_calls("cuMemcpyBatchAsync") + fakecuda_calls("cuMemcpyAsync") == copies);
}

TEST_CASE("a copy whose call fails between the host and a GPU ends with the call's name") {
  struct Case {
    const char* call;
    MemoryOrder order;
  };
  // Blocks are few runs, or many small ones, which a kernel copies.
  const auto [call, order] = GENERATE(Case{"cuMemcpyBatchAsync", MemoryOrder::kBlockMajor},
                                      Case{"cuLaunchKernel", MemoryOrder::kLayerMajor},
                                      Case{"cuEventRecord", MemoryOrder::kLayerMajor});
  const bool is_to_host = GENERATE(true, false);
  CAPTURE(call, is_to_host);
  Machine machine;
  const auto host = machine.MakeOnHost(order);
  const auto gpus = machine.MakeOnGpus(order);
  Memory& from = is_to_host ? *gpus : *host;
  Memory& to = is_to_host ? *host : *gpus;
  Number(from, kSources[0]);
  fakecuda_set("FAKECUDA_FAIL", absl::StrCat(call, ":0:1").c_str());
  CheckRefused(Copy(from, kSources, to, kDestinations), absl::StatusCode::kInternal,
               Reason::kDevice, {"GPU-", call, "CUDA_ERROR_INVALID_VALUE (1)"});
  fakecuda_set("FAKECUDA_FAIL", nullptr);
  REQUIRE(Copy(from, kSources, to, kDestinations).ok());
  CHECK(BytesOf(to, kDestinations[0]) == BytesOf(from, kSources[0]));
}

TEST_CASE("a GPU that is lost in a copy is the copy's answer, whichever way it went") {
  const bool is_to_host = GENERATE(true, false);
  CAPTURE(is_to_host);
  Machine machine;
  const auto host = machine.MakeOnHost(MemoryOrder::kLayerMajor);
  const auto gpus = machine.MakeOnGpus(MemoryOrder::kLayerMajor);
  Memory& from = is_to_host ? *gpus : *host;
  Memory& to = is_to_host ? *host : *gpus;
  fakecuda_set("FAKECUDA_FAIL", "cuStreamSynchronize:0:700");
  CheckRefused(Copy(from, kSources, to, kDestinations), absl::StatusCode::kFailedPrecondition,
               Reason::kDeviceFailed, {"cuStreamSynchronize", "(700)"});
  fakecuda_set("FAKECUDA_FAIL", nullptr);
  CheckRefused(Copy(from, kSources, to, kDestinations), absl::StatusCode::kFailedPrecondition,
               Reason::kDeviceFailed, {"cuStreamSynchronize", "(700)"});
}

}  // namespace
}  // namespace kvpool::cuda
