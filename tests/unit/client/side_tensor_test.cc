#include "client/side_tensor.h"

#include <memory>
#include <string>

#include "client/describe_side.h"
#include "client/mapping.h"
#include "tests/support/catch.h"
#include "tests/support/fake_gpus.h"

namespace kvpool::client {
namespace {

using Dims = std::vector<int64_t>;

PoolSpec Spec(const std::string& dtype) {
  PoolSpec spec;
  spec.name = "p";
  spec.block_size = 4;
  spec.num_layers = 2;
  spec.num_kv_heads = 3;
  spec.head_dim = 32;
  spec.dtype = dtype;
  spec.num_blocks = 5;
  return spec;
}

PoolLayout Plan(const PoolSpec& spec) { return PlanPool(spec).value(); }

TEST_CASE("A side of plain elements is a tensor of blocks, tokens, heads and elements") {
  struct Case {
    const char* dtype;
    uint8_t code;
    uint8_t bits;
  };
  // As DLPack numbers them: float, float, bfloat, float8_e4m3fn.
  const Case wanted =
      GENERATE(Case{"fp32", 2, 32}, Case{"fp16", 2, 16}, Case{"bf16", 4, 16}, Case{"fp8", 10, 8});
  CAPTURE(wanted.dtype);
  const PoolLayout layout = Plan(Spec(wanted.dtype));
  const auto tensor = DescribeSide(layout, layout.layers[1].k);
  REQUIRE(tensor.ok());
  CHECK(tensor->type_code == wanted.code);
  CHECK(tensor->type_bits == wanted.bits);
  CHECK(tensor->type_lanes == 1);
  CHECK(tensor->byte_offset == 0);
  CHECK(tensor->shape == Dims{5, 4, 3, 32});
  CHECK(tensor->strides == Dims{4 * 3 * 32, 3 * 32, 32, 1});
}

TEST_CASE("Where a block is one run, the blocks of a side are that far apart") {
  PoolSpec spec = Spec("bf16");
  spec.memory_order = MemoryOrder::kBlockMajor;
  spec.v_head_dim = 64;
  const PoolLayout layout = Plan(spec);
  const auto k = DescribeSide(layout, layout.layers[0].k);
  const auto v = DescribeSide(layout, *layout.layers[0].v);
  REQUIRE(k.ok());
  REQUIRE(v.ok());
  // Two layers of K and V, in elements.
  const int64_t block = 2 * 4 * 3 * (32 + 64);
  CHECK(k->shape == Dims{5, 4, 3, 32});
  CHECK(k->strides == Dims{block, 3 * 32, 32, 1});
  CHECK(v->shape == Dims{5, 4, 3, 64});
  CHECK(v->strides == Dims{block, 3 * 64, 64, 1});
}

TEST_CASE("A side of packed or scaled elements, or of mere bytes, is a tensor of bytes") {
  PoolSpec spec = Spec(GENERATE("nvfp4", "turbo8", "turbo4", "turbo3", "turbo2", "raw"));
  CAPTURE(spec.dtype);
  if (spec.dtype == "raw") {
    spec.num_kv_heads = spec.head_dim = 0;
    spec.raw_token_bytes = 33;
  }
  const PoolLayout layout = Plan(spec);
  const SideLayout& side = layout.layers[1].k;
  const auto tensor = DescribeSide(layout, side);
  REQUIRE(tensor.ok());
  CHECK(tensor->type_code == 1);
  CHECK(tensor->type_bits == 8);
  CHECK(tensor->shape == Dims{5, static_cast<int64_t>(side.block_bytes)});
  CHECK(tensor->strides == Dims{static_cast<int64_t>(side.stride_bytes), 1});
}

TEST_CASE("Blocks that do not begin at whole elements are no tensor, and it is said why") {
  PoolLayout layout = Plan(Spec("bf16"));
  SideLayout& side = layout.layers[0].k;
  SECTION("by the stride") { side.stride_bytes += 1; }
  SECTION("by the first") { side.offset_bytes += 1; }
  const absl::Status status = DescribeSide(layout, side).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(status.message().find("not whole elements of bf16") != absl::string_view::npos);
}

TEST_CASE("A layout whose numbers do not agree is the daemon's fault") {
  PoolLayout layout = Plan(Spec("bf16"));
  SideLayout& side = layout.layers[0].k;
  SECTION("more heads than bytes") { ++side.num_heads; }
  SECTION("no heads") { side.num_heads = 0; }
  SECTION("larger heads than bytes") { side.head_dim *= 2; }
  SECTION("more tokens than bytes") { layout.spec.block_size = 5; }
  SECTION("more elements than bytes") { side.data_bytes -= 2; }
  SECTION("more bytes of elements than of a block") { side.block_bytes = side.data_bytes - 1; }
  CHECK(absl::IsInternal(DescribeSide(layout, side).status()));
}

TEST_CASE("A mapping's tensors are at its memory, on its device") {
  PoolSpec spec = Spec("fp16");
  spec.devices = {"cuda:0"};
  const auto layout = std::make_shared<const PoolLayout>(Plan(spec));
  const auto mapping = Mapping::CreateOnGpu(
      layout, std::make_shared<test::FakeGpuMemory>(test::FakeGpus::kBase, layout->shard_bytes, 2),
      Mapping::Access::kReadWrite, 0);
  REQUIRE(mapping.ok());
  const auto k = mapping->k_tensor(1);
  const auto v = mapping->v_tensor(1);
  REQUIRE(k.ok());
  REQUIRE(v.ok());
  CHECK(k->device_type == 2);
  CHECK(k->device_id == 2);
  CHECK(k->data == mapping->k_ptr(1));
  CHECK(v->data == mapping->v_ptr(1));
  CHECK(v->data != k->data);
}

}  // namespace
}  // namespace kvpool::client
