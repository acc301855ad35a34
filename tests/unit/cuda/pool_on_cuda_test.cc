// A pool on a GPU beside one on the host: copies between the two.
#include <chrono>
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
  explicit TwoPools(const PoolSpec& spec)
      : on_gpu(spec, gpu.device(), "cuda:0"), on_host(spec, host, std::string(kHostDevice)) {}

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
