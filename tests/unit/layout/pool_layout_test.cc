#include "core/layout/pool_layout.h"

#include <string>

#include "tests/support/catch.h"
#include "tests/unit/layout/specs.h"

namespace kvpool {
namespace {

using test::BaseSpec;
using test::OneSide;
using test::Raw;

PoolLayout Plan(const PoolSpec& spec) {
  const auto layout = PlanPool(spec);
  INFO(std::string(layout.status().message()));
  REQUIRE(layout.ok());
  return *layout;
}

TEST_CASE("12 layers of 2 heads of 256 take the bytes that the contract pins") {
  PoolSpec spec = BaseSpec();
  CHECK(Plan(spec).layers[0].k.block_bytes == 8192);
  CHECK(Plan(spec).block_bytes == 196'608);

  spec.dtype = "nvfp4";
  CHECK(Plan(spec).block_bytes == 110'592);
  spec.high_precision_layers = 1;
  CHECK(Plan(spec).block_bytes == 157'696);

  spec.high_precision_layers = 0;
  spec.dtype = "bf16k_turbo3v";
  CHECK(Plan(spec).layers[0].k.block_bytes == 16'384);
  CHECK(Plan(spec).layers[0].v->block_bytes == 3584);
}

TEST_CASE("One head of 512 whose V aliases K takes 90,112 bytes in 11 layers") {
  PoolSpec spec = BaseSpec();
  spec.num_layers = 11;
  spec.num_kv_heads = 1;
  spec.head_dim = 512;
  spec.v_mode = VMode::kAliasesK;
  CHECK(Plan(spec).block_bytes == 90'112);
}

struct ShapeCase {
  uint32_t heads;
  uint32_t dim;
  const char* dtype;
  uint64_t elements;
  uint64_t block_bytes;
};

TEST_CASE("One side of other shapes takes the bytes that the contract pins") {
  const auto c = GENERATE(values<ShapeCase>({
      {8, 128, "fp8", 16'384, 16'384},
      {8, 128, "bf16", 16'384, 32'768},
      {8, 128, "nvfp4", 16'384, 9216},
      {8, 128, "turbo3", 16'384, 7168},
      {8, 128, "turbo2", 16'384, 5120},
      {8, 128, "turbo8", 16'384, 18'432},
      {1, 576, "fp8", 9216, 9216},
      {1, 576, "turbo3", 9216, 4032},
      {4, 512, "fp8", 32'768, 32'768},
      {16, 256, "fp8", 65'536, 65'536},
      {16, 256, "turbo8", 65'536, 73'728},
  }));
  CAPTURE(c.heads, c.dim, c.dtype);
  const PoolLayout layout = Plan(OneSide(c.heads, c.dim, c.dtype));
  const SideLayout& k = layout.layers[0].k;
  CHECK(k.block_elements == c.elements);
  CHECK(k.block_bytes == c.block_bytes);
  CHECK(k.data_bytes + k.scale_bytes == c.block_bytes);
  CHECK(layout.block_bytes == c.block_bytes);
  CHECK(k.num_heads == c.heads);
  CHECK(k.head_dim == c.dim);
  CHECK_FALSE(layout.layers[0].v.has_value());
}

struct SideCase {
  const char* dtype;
  uint64_t data_bytes;
  uint64_t scale_bytes;
};

TEST_CASE("The scales of each format start where its data ends") {
  const auto c = GENERATE(values<SideCase>({
      {"fp32", 32'768, 0},
      {"fp16", 16'384, 0},
      {"bf16", 16'384, 0},
      {"fp8", 8192, 0},
      {"nvfp4", 4096, 512},
      {"turbo4", 4096, 512},
      {"turbo3", 3072, 512},
      {"turbo2", 2048, 512},
      {"turbo8", 8192, 1024},
  }));
  CAPTURE(c.dtype);
  const SideLayout k = Plan(OneSide(2, 256, c.dtype)).layers[0].k;
  CHECK(std::string(DtypeName(k.dtype)) == c.dtype);
  CHECK(k.data_bytes == c.data_bytes);
  CHECK(k.scale_bytes == c.scale_bytes);
  CHECK(k.block_bytes == c.data_bytes + c.scale_bytes);
}

TEST_CASE("A raw side is block_size tokens of bytes without known elements") {
  const PoolLayout layout = Plan(Raw(16, 100));
  const SideLayout& k = layout.layers[0].k;
  CHECK(k.dtype == Dtype::kRaw);
  CHECK(k.block_bytes == 1600);
  CHECK(k.data_bytes == 1600);
  CHECK(k.scale_bytes == 0);
  CHECK(k.num_heads == 0);
  CHECK(k.head_dim == 0);
  CHECK(k.block_elements == 0);
  CHECK(layout.layers[0].v->block_bytes == 1600);
  CHECK(layout.block_bytes == 3200);

  PoolSpec latent = Raw(16, 100);
  latent.v_mode = VMode::kAliasesK;
  CHECK(Plan(latent).block_bytes == 1600);
  latent.v_mode = VMode::kNone;
  CHECK(Plan(latent).block_bytes == 1600);
}

TEST_CASE("A layer takes its own dtype, heads and dims, else the pool's") {
  PoolSpec spec = BaseSpec();
  spec.layers = {{.first = 1, .last = 2, .dtype = "bf16"},
                 {.first = 4, .last = 4, .num_kv_heads = 4, .head_dim = 64},
                 {.first = 5, .last = 5, .v_head_dim = 128},
                 {.first = 6, .last = 6, .dtype = "fp8k4v", .head_dim = 128, .v_head_dim = 32}};
  const PoolLayout layout = Plan(spec);
  const auto bytes = [&](size_t layer) {
    return std::pair(layout.layers[layer].k.block_bytes, layout.layers[layer].v->block_bytes);
  };
  CHECK(bytes(0) == std::pair<uint64_t, uint64_t>(8192, 8192));
  CHECK(bytes(1) == std::pair<uint64_t, uint64_t>(16'384, 16'384));
  CHECK(bytes(2) == std::pair<uint64_t, uint64_t>(16'384, 16'384));
  CHECK(bytes(3) == std::pair<uint64_t, uint64_t>(8192, 8192));
  CHECK(bytes(4) == std::pair<uint64_t, uint64_t>(4096, 4096));  // 16 x 4 x 64.
  CHECK(bytes(5) == std::pair<uint64_t, uint64_t>(8192, 4096));  // V: 16 x 2 x 128.
  CHECK(bytes(6) == std::pair<uint64_t, uint64_t>(4096, 576));   // V: 1024 / 2 + 1024 / 16.
  CHECK(layout.layers[4].v->num_heads == 4);
  CHECK(layout.layers[4].v->head_dim == 64);
  CHECK(layout.layers[6].v->dtype == Dtype::kTurbo4);
}

TEST_CASE("V's dim is the layer's own, else the pool's, else that of K in the layer") {
  PoolSpec spec = BaseSpec();
  spec.layers = {{.first = 1, .last = 1, .head_dim = 64},
                 {.first = 2, .last = 2, .head_dim = 64, .v_head_dim = 32}};
  CHECK(Plan(spec).layers[0].v->head_dim == 256);
  CHECK(Plan(spec).layers[1].v->head_dim == 64);
  CHECK(Plan(spec).layers[2].v->head_dim == 32);
  spec.v_head_dim = 128;
  CHECK(Plan(spec).layers[0].k.head_dim == 256);
  CHECK(Plan(spec).layers[0].v->head_dim == 128);
  CHECK(Plan(spec).layers[1].v->head_dim == 128);
  CHECK(Plan(spec).layers[2].v->head_dim == 32);
}

std::string Formats(const PoolSpec& spec) {
  std::string text;
  for (const LayerLayout& layer : Plan(spec).layers) {
    const bool is_bf16 = layer.k.dtype == Dtype::kBf16 && layer.v->dtype == Dtype::kBf16;
    text += is_bf16 ? 'H' : '.';
  }
  return text;
}

TEST_CASE("The first and the last N layers become bf16, both sides") {
  PoolSpec spec = BaseSpec();
  for (const char* dtype : {"nvfp4", "fp8", "fp32", "bf16k_turbo4v"}) {
    CAPTURE(dtype);
    spec.dtype = dtype;
    spec.high_precision_layers = 0;
    CHECK(Formats(spec) == "............");
    spec.high_precision_layers = 1;
    CHECK(Formats(spec) == "H..........H");
    spec.high_precision_layers = 3;
    CHECK(Formats(spec) == "HHH......HHH");
    spec.high_precision_layers = 6;
    CHECK(Formats(spec) == "HHHHHHHHHHHH");
  }
}

TEST_CASE("More high-precision layers than half of them make all of them so") {
  PoolSpec spec = BaseSpec();
  spec.dtype = "nvfp4";
  for (const uint32_t count : {7U, 12U, 1000U, UINT32_MAX}) {
    CAPTURE(count);
    spec.high_precision_layers = count;
    CHECK(Formats(spec) == "HHHHHHHHHHHH");
  }
  spec.num_layers = 5;
  spec.high_precision_layers = 2;
  CHECK(Formats(spec) == "HH.HH");
  spec.high_precision_layers = 3;
  CHECK(Formats(spec) == "HHHHH");
}

TEST_CASE("An override's own dtype wins over high precision; its heads alone do not") {
  PoolSpec spec = BaseSpec();
  spec.dtype = "nvfp4";
  spec.high_precision_layers = 2;
  spec.layers = {{.first = 0, .last = 0, .dtype = "turbo4"},
                 {.first = 1, .last = 1, .num_kv_heads = 4}};
  const PoolLayout layout = Plan(spec);
  CHECK(layout.layers[0].k.dtype == Dtype::kTurbo4);
  CHECK(layout.layers[1].k.dtype == Dtype::kBf16);
  CHECK(layout.layers[1].k.block_bytes == 32'768);
  CHECK(layout.layers[11].k.dtype == Dtype::kBf16);
}

TEST_CASE("High precision changes nothing when the base dtype is bf16") {
  PoolSpec spec = BaseSpec();
  spec.dtype = "bf16";
  const PoolLayout plain = Plan(spec);
  spec.high_precision_layers = 3;
  const PoolLayout high = Plan(spec);
  CHECK(high.layers == plain.layers);
  CHECK(high.fingerprint == plain.fingerprint);
}

TEST_CASE("Shards are as many as devices and do not change a shard's layout") {
  PoolSpec spec = BaseSpec();
  const PoolLayout one = Plan(spec);
  CHECK(one.num_shards() == 1);
  spec.devices = {"host", "host", "host", "host"};
  const PoolLayout four = Plan(spec);
  CHECK(four.num_shards() == 4);
  CHECK(four.shard_bytes == one.shard_bytes);
  CHECK(four.layers == one.layers);
  CHECK(four.fingerprint == one.fingerprint);
}

TEST_CASE("Planning a spec that was filled in gives the same layout again") {
  PoolSpec spec = BaseSpec();
  spec.dtype = "fp8k4v";
  spec.v_head_dim = 128;
  spec.high_precision_layers = 1;
  spec.layers = {{.first = 3, .last = 4, .dtype = "bf16k3v", .head_dim = 64}};
  const PoolLayout layout = Plan(spec);
  CHECK(layout.spec.dtype == "fp8k_turbo4v");
  CHECK(Plan(layout.spec) == layout);
}

}  // namespace
}  // namespace kvpool
