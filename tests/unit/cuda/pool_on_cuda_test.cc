// A pool on a GPU beside one on the host: copies between the two, and checksums that are the same.
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/device/host_device.h"
#include "core/executor.h"
#include "core/pool.h"
#include "tests/unit/cuda/fixture.h"
#include "tests/unit/cuda/says.h"
#include "tests/unit/pool/pool_fixture.h"

namespace kvpool::cuda {
namespace {

constexpr uint32_t kBlocks = 40;

PoolSpec Spec(const std::string& dtype, MemoryOrder order = MemoryOrder::kLayerMajor) {
  PoolSpec spec;
  spec.name = "pool";
  spec.num_layers = 6;
  spec.dtype = dtype;
  spec.num_blocks = kBlocks;
  spec.memory_order = order;
  spec.num_kv_heads = 2;
  spec.head_dim = 32;
  return spec;
}

// A pool of one session, all of whose blocks it holds.
class HeldPool {
 public:
  HeldPool(PoolSpec spec, Device& device, const std::string& selector) : session_(1) {
    spec.devices = {selector};
    pool_ = test::MakePool(
        spec, device, [] { return TimePoint(Duration(0)); }, observer_);
    OpenSessionCall call;
    call.id = session_.id;
    call.tenant = session_.tenant;
    call.client_name = "test";
    call.process = ProcessId{1};
    call.ttl = std::chrono::hours(1);
    REQUIRE(pool_->OpenSession(call).ok());
    test::Answer<test::AllocResult> answer;
    pool_->Alloc(test::MakeAllocCall(session_, kBlocks), answer.callback());
    const test::AllocResult result = answer.Take();
    REQUIRE(result.ok());
    blocks_ = result->blocks;
  }

  // Writes numbers over every side of every block: of moderate size, with some NaNs, and of the
  // block's, the layer's and the side's own.
  void WriteNumbers(uint32_t seed) {
    for (const BlockRef& ref : blocks_) {
      ForEachSide(ref.block, [&](const PieceRange& range) {
        BlockPiece piece{.range = range, .data = std::string(range.size_bytes, '\0')};
        uint32_t value = seed + ToIndex(range.block) * 977 + range.layer * 131 +
                         static_cast<uint32_t>(range.side) * 17;
        for (size_t i = 0; i < piece.data.size(); ++i) {
          value = value * 1'664'525 + 1'013'904'223;
          // The high bytes of floats, little-endian: near 1, or, seldom, a NaN.
          const uint32_t high = value >> 27 == 0 ? 0xFF : 0x3F;
          piece.data[i] = static_cast<char>(i % 2 == 1 ? high : value >> 24);
        }
        test::Answer<absl::Status> answer;
        pool_->Write(session_.caller(), std::move(piece), answer.callback());
        REQUIRE(answer.Take().ok());
      });
    }
  }
  std::string Bytes(const std::vector<BlockRef>& blocks) {
    std::string bytes;
    auto reader = pool_->OpenReader(session_.caller(), blocks, {}, 0);
    REQUIRE(reader.ok());
    for (;;) {
      test::Answer<test::PieceResult> answer;
      (*reader)->Next(answer.callback());
      const test::PieceResult piece = answer.Take();
      REQUIRE(piece.ok());
      if (!piece->has_value()) return bytes;
      bytes += (**piece).data;
    }
  }
  std::vector<LayerChecksum> SumLayers(uint32_t boundary) {
    test::Answer<absl::StatusOr<std::vector<LayerChecksum>>> answer;
    pool_->ChecksumLayers(blocks_, boundary, 0, answer.callback());
    const auto sums = answer.Take();
    REQUIRE(sums.ok());
    return *sums;
  }
  std::vector<BlockChecksum> SumBlocks(uint32_t layer) {
    test::Answer<absl::StatusOr<std::vector<BlockChecksum>>> answer;
    pool_->ChecksumBlocks(blocks_, layer, 0, answer.callback());
    const auto sums = answer.Take();
    REQUIRE(sums.ok());
    return *sums;
  }

  const std::shared_ptr<Pool>& pool() const { return pool_; }
  const test::TestSession& session() const { return session_; }
  const std::vector<BlockRef>& blocks() const { return blocks_; }

 private:
  template <typename Visit>
  void ForEachSide(BlockId block, Visit visit) {
    const PoolLayout& layout = pool_->layout();
    for (uint32_t layer = 0; layer < layout.layers.size(); ++layer) {
      for (const Side side : {Side::kK, Side::kV}) {
        const LayerLayout& place = layout.layers[layer];
        visit(PieceRange{
            .shard = 0,
            .block = block,
            .layer = layer,
            .side = side,
            .offset_bytes = 0,
            .size_bytes = side == Side::kK ? place.k.block_bytes : place.v->block_bytes});
      }
    }
  }

  test::RecordingObserver observer_;
  const test::TestSession session_;
  std::shared_ptr<Pool> pool_;
  std::vector<BlockRef> blocks_;
};

// The same pool on a GPU and on the host.
struct TwoPools {
  // `failing` as FAKECUDA_FAIL has it, while the GPU is opened.
  explicit TwoPools(const PoolSpec& spec, const char* failing = nullptr)
      : on_gpu(spec, Open(failing), "cuda:0"), on_host(spec, host, std::string(kHostDevice)) {}

  Device& Open(const char* failing) {
    fakecuda_set("FAKECUDA_FAIL", failing);
    return gpu.device();
  }

  FakeGpu gpu;
  InlineExecutor executor;
  HostDevice host{executor};
  HeldPool on_gpu;
  HeldPool on_host;
};

absl::Status Copy(const HeldPool& from, const HeldPool& to, const std::vector<BlockRef>& sources,
                  const std::vector<BlockRef>& destinations) {
  test::Answer<absl::Status> answer;
  Pool::CopyBlocks(from.pool(), to.pool(), from.session().caller(), sources, destinations,
                   std::nullopt, answer.callback());
  return answer.Take();
}

// To what adding up in another order changes. Infinities are the same in any order.
bool IsNear(double a, double b, double absolutes) {
  return a == b || std::fabs(a - b) <= 1e-12 * absolutes;
}

void CheckSame(const SideChecksum& gpu, const SideChecksum& host) {
  CHECK(gpu.crc32c == host.crc32c);
  CHECK(gpu.has_sums == host.has_sums);
  CHECK(gpu.nan_count == host.nan_count);
  CHECK(IsNear(gpu.sum, host.sum, host.sum_of_absolutes));
  CHECK(IsNear(gpu.sum_of_squares, host.sum_of_squares, host.sum_of_squares));
  CHECK(IsNear(gpu.sum_of_absolutes, host.sum_of_absolutes, host.sum_of_absolutes));
}

void CheckSameSums(TwoPools& pools) {
  pools.on_gpu.WriteNumbers(5);
  pools.on_host.WriteNumbers(5);
  const std::vector<LayerChecksum> gpu = pools.on_gpu.SumLayers(/*boundary=*/7);
  const std::vector<LayerChecksum> host = pools.on_host.SumLayers(/*boundary=*/7);
  REQUIRE(gpu.size() == host.size());
  for (size_t layer = 0; layer < gpu.size(); ++layer) {
    CAPTURE(layer);
    CheckSame(gpu[layer].prefix_k, host[layer].prefix_k);
    CheckSame(gpu[layer].prefix_v, host[layer].prefix_v);
    CheckSame(gpu[layer].suffix_k, host[layer].suffix_k);
    CheckSame(gpu[layer].suffix_v, host[layer].suffix_v);
  }
  CHECK(gpu[0].prefix_k.crc32c != gpu[1].prefix_k.crc32c);
  CHECK(gpu[0].prefix_k.crc32c != gpu[0].prefix_v.crc32c);
  const std::vector<BlockChecksum> gpu_blocks = pools.on_gpu.SumBlocks(/*layer=*/2);
  const std::vector<BlockChecksum> host_blocks = pools.on_host.SumBlocks(/*layer=*/2);
  REQUIRE(gpu_blocks.size() == kBlocks);
  for (size_t i = 0; i < kBlocks; ++i) {
    CAPTURE(i);
    CheckSame(gpu_blocks[i].k, host_blocks[i].k);
    CheckSame(gpu_blocks[i].v, host_blocks[i].v);
  }
}

uint64_t Copies() { return fakecuda_calls("cuMemcpyBatchAsync") + fakecuda_calls("cuMemcpyAsync"); }

TEST_CASE("a GPU's pool has the checksums of the host's, made where the bytes are") {
  const std::string dtype = GENERATE("bf16", "fp8", "fp16", "fp32", "nvfp4", "bf16k_turbo4v");
  const auto order = GENERATE(MemoryOrder::kLayerMajor, MemoryOrder::kBlockMajor);
  CAPTURE(dtype);
  TwoPools pools(Spec(dtype, order));
  CheckSameSums(pools);

  const uint64_t copies = Copies();
  const uint64_t launches = fakecuda_calls("cuLaunchKernel");
  pools.on_gpu.SumLayers(/*boundary=*/7);
  pools.on_gpu.SumBlocks(/*layer=*/2);
  // For each of the two K and V, or both at once.
  const uint64_t sides = dtype == "bf16k_turbo4v" ? 4 : 2;
  CHECK(fakecuda_calls("cuLaunchKernel") - launches == sides);
  CHECK(Copies() == copies);
}

TEST_CASE("a list of more sides than are added up at once is several lists") {
  TwoPools pools(Spec("fp8"));
  pools.on_gpu.WriteNumbers(7);
  const std::vector<BlockChecksum> of_each = pools.on_gpu.SumBlocks(/*layer=*/4);
  std::vector<BlockRef> blocks;
  while (blocks.size() < 2100) blocks.push_back(pools.on_gpu.blocks()[blocks.size() % kBlocks]);
  const uint64_t launches = fakecuda_calls("cuLaunchKernel");
  test::Answer<absl::StatusOr<std::vector<BlockChecksum>>> answer;
  pools.on_gpu.pool()->ChecksumBlocks(blocks, /*layer=*/4, 0, answer.callback());
  const auto sums = answer.Take();
  REQUIRE(sums.ok());
  REQUIRE(sums->size() == blocks.size());
  bool are_same = true;
  for (size_t i = 0; i < blocks.size(); ++i) {
    are_same = are_same && (*sums)[i].k.crc32c == of_each[i % kBlocks].k.crc32c &&
               (*sums)[i].v.crc32c == of_each[i % kBlocks].v.crc32c;
  }
  CHECK(are_same);
  // 4,200 sides: twice as many as a launch takes, and the rest.
  CHECK(fakecuda_calls("cuLaunchKernel") - launches == 3);
}

TEST_CASE("a pool on a GPU without kernels is read and has the same checksums") {
  TwoPools pools(Spec("bf16k_turbo4v"), "cuModuleLoadData:1:222");
  CheckSameSums(pools);
  CHECK(fakecuda_calls("cuLaunchKernel") == 0);
}

TEST_CASE("a checksum whose launch fails is DEVICE_FAILED with the call's name, and no sums") {
  TwoPools pools(Spec("bf16"));
  fakecuda_set("FAKECUDA_FAIL", "cuLaunchKernel:0:1");
  test::Answer<absl::StatusOr<std::vector<LayerChecksum>>> answer;
  pools.on_gpu.pool()->ChecksumLayers(pools.on_gpu.blocks(), 3, 0, answer.callback());
  CheckRefused(answer.Take().status(), absl::StatusCode::kFailedPrecondition, Reason::kDeviceFailed,
               {"GPU-", "cuLaunchKernel"});
}

TEST_CASE("CopyBlocks swaps blocks out of a GPU's pool to the host's and in again") {
  TwoPools pools(Spec("bf16", GENERATE(MemoryOrder::kLayerMajor, MemoryOrder::kBlockMajor)));
  HeldPool& gpu = pools.on_gpu;
  HeldPool& host = pools.on_host;
  gpu.WriteNumbers(1);
  host.WriteNumbers(2);
  const std::vector<BlockRef> hot{gpu.blocks()[3], gpu.blocks()[30], gpu.blocks()[4]};
  const std::vector<BlockRef> cold{host.blocks()[20], host.blocks()[1], host.blocks()[2]};
  const std::string hot_bytes = gpu.Bytes(hot);
  const std::string neighbour = host.Bytes({host.blocks()[21]});

  REQUIRE(Copy(gpu, host, hot, cold).ok());
  CHECK(host.Bytes(cold) == hot_bytes);
  CHECK(host.Bytes({host.blocks()[21]}) == neighbour);

  const std::vector<BlockRef> again{gpu.blocks()[7], gpu.blocks()[8], gpu.blocks()[39]};
  REQUIRE(gpu.Bytes(again) != hot_bytes);
  REQUIRE(Copy(host, gpu, cold, again).ok());
  CHECK(gpu.Bytes(again) == hot_bytes);
}

TEST_CASE("a swap whose call fails is DEVICE_FAILED with its name, and lets the blocks go") {
  TwoPools pools(Spec("bf16"));
  const bool is_out = GENERATE(true, false);
  HeldPool& from = is_out ? pools.on_gpu : pools.on_host;
  HeldPool& to = is_out ? pools.on_host : pools.on_gpu;
  const std::vector<BlockRef> sources{from.blocks()[0]};
  const std::vector<BlockRef> destinations{to.blocks()[1]};
  from.WriteNumbers(3);
  fakecuda_set("FAKECUDA_FAIL", "cuEventRecord:0:1");
  CheckRefused(Copy(from, to, sources, destinations), absl::StatusCode::kFailedPrecondition,
               Reason::kDeviceFailed, {"GPU-", "cuEventRecord"});
  fakecuda_set("FAKECUDA_FAIL", nullptr);
  REQUIRE(Copy(from, to, sources, destinations).ok());
  CHECK(to.Bytes(destinations) == from.Bytes(sources));
}

}  // namespace
}  // namespace kvpool::cuda
