#include <string>
#include <vector>

#include "core/layout/pool_layout.h"
#include "core/layout/spec_check.h"
#include "tests/support/catch.h"
#include "tests/unit/layout/specs.h"
#include "tests/unit/layout/wrong_specs.h"

namespace kvpool {
namespace {

using test::BaseSpec;
using test::CheckAllRefused;
using test::CheckRefused;
using test::kMax32;
using test::Raw;

TEST_CASE("Heads and dims of the pool are not needed where every layer has its own") {
  PoolSpec spec = BaseSpec();
  spec.num_kv_heads = 0;
  spec.head_dim = 0;
  spec.layers = {{.first = 0, .last = 11, .num_kv_heads = 2, .head_dim = 256}};
  const auto layout = PlanPool(spec);
  REQUIRE(layout.ok());
  CHECK(layout->block_bytes == 196'608);
}

TEST_CASE("Anything that overflows 64 bits is refused by the name of its field") {
  CheckAllRefused(BaseSpec(), {
                                  {"elements",
                                   [](PoolSpec& s) {
                                     s.block_size = kMax32;
                                     s.num_kv_heads = kMax32;
                                     s.head_dim = kMax32;
                                   },
                                   "head_dim is 4294967295: the elements "},
                                  {"elements of V",
                                   [](PoolSpec& s) {
                                     s.block_size = 1U << 31;
                                     s.num_kv_heads = 1U << 31;
                                     s.head_dim = 1;
                                     s.v_head_dim = 4;
                                   },
                                   "v_head_dim is 4: the elements "},
                                  {"elements of an override",
                                   [](PoolSpec& s) {
                                     s.block_size = 1U << 31;
                                     s.num_kv_heads = 1U << 31;
                                     s.head_dim = 1;
                                     s.num_layers = 1;
                                     s.layers = {{.first = 0, .last = 0, .head_dim = kMax32}};
                                   },
                                   "layers[0].head_dim is 4294967295: the elements "},
                                  {"bytes of a side",
                                   [](PoolSpec& s) {
                                     s.block_size = 1U << 31;
                                     s.num_kv_heads = 1U << 31;
                                     s.head_dim = 3;
                                     s.dtype = "fp32";
                                   },
                                   "head_dim is 3: in layer 0, "},
                                  {"bytes of a block",
                                   [](PoolSpec& s) {
                                     s.block_size = 1U << 31;
                                     s.num_kv_heads = 1U << 31;
                                     s.head_dim = 1;
                                   },
                                   "num_layers is 12: "},
                                  {"bytes of a shard",
                                   [](PoolSpec& s) {
                                     s.block_size = 1U << 20;
                                     s.head_dim = 1U << 20;
                                     s.num_blocks = kMaxBlocks;
                                   },
                                   "num_blocks is 2147483647: "},
                                  {"bytes of all shards",
                                   [](PoolSpec& s) {
                                     s.num_layers = 1;
                                     s.num_kv_heads = 1;
                                     s.block_size = 1U << 16;
                                     s.head_dim = 1U << 16;
                                     s.num_blocks = 1U << 30;
                                     s.devices = {"host", "host"};
                                   },
                                   "num_blocks is 1073741824: "},
                              });
}

TEST_CASE("A scaled format needs a multiple of 16 elements a block") {
  for (const char* dtype : {"nvfp4", "turbo8", "turbo4", "turbo3", "turbo2"}) {
    CAPTURE(dtype);
    PoolSpec spec = BaseSpec();
    spec.dtype = dtype;
    spec.block_size = 1;
    spec.num_kv_heads = 1;
    spec.head_dim = 24;
    CheckRefused(spec, "head_dim is 24: in layer 0, with block_size 1 and 1 heads, ");
    spec.head_dim = 32;
    CHECK(PlanPool(spec).ok());
    spec.v_head_dim = 40;
    CheckRefused(spec, "v_head_dim is 40: in layer 0, ");
    spec.v_head_dim = 0;
    spec.layers = {{.first = 1, .last = 1}, {.first = 3, .last = 4, .head_dim = 8}};
    CheckRefused(spec, "layers[1].head_dim is 8: in layer 3, ");
    spec.layers[1] = {.first = 3, .last = 4, .v_head_dim = 9};
    CheckRefused(spec, "layers[1].v_head_dim is 9: in layer 3, ");
  }
  // Only V is scaled here.
  PoolSpec pair = BaseSpec();
  pair.dtype = "bf16k_turbo3v";
  pair.block_size = 1;
  pair.num_kv_heads = 1;
  pair.head_dim = 3;
  pair.v_head_dim = 16;
  CHECK(PlanPool(pair).ok());
  pair.v_head_dim = 15;
  CheckRefused(pair, "v_head_dim is 15: in layer 0, ");
}

TEST_CASE("Unknown dtypes are refused by field, with every name listed") {
  CheckAllRefused(
      BaseSpec(),
      {
          {"the pool's", [](PoolSpec& s) { s.dtype = "int8"; },
           "dtype: \"int8\" is no dtype; the "},
          {"a layer's",
           [](PoolSpec& s) {
             s.layers = {{.first = 0, .last = 0}, {.first = 1, .last = 1, .dtype = "FP8"}};
           },
           "layers[1].dtype: \"FP8\" is no dtype; the dtypes are fp32, "},
          {"raw in one layer",
           [](PoolSpec& s) { s.layers = {{.first = 0, .last = 0, .dtype = "raw"}}; },
           "layers[0].dtype is \"raw\": "},
      });
}

TEST_CASE("A layer out of range or named twice is refused by field and value") {
  CheckAllRefused(BaseSpec(),
                  {
                      {"first", [](PoolSpec& s) { s.layers = {{.first = 12, .last = 12}}; },
                       "layers[0].first is 12: the pool has 12 layers"},
                      {"last",
                       [](PoolSpec& s) {
                         s.layers = {{.first = 0, .last = 0},
                                     {.first = 1, .last = 1},
                                     {.first = 2, .last = 40}};
                       },
                       "layers[2].last is 40: the pool has 12 layers"},
                      {"backwards", [](PoolSpec& s) { s.layers = {{.first = 5, .last = 4}}; },
                       "layers[0].last is 4: it is before first, 5"},
                      {"twice",
                       [](PoolSpec& s) {
                         s.layers = {{.first = 0, .last = 3}, {.first = 3, .last = 5}};
                       },
                       "layers[1].first is 3: layer 3 is named by layers[0] already"},
                      {"inside",
                       [](PoolSpec& s) {
                         s.layers = {{.first = 4, .last = 4}, {.first = 0, .last = 11}};
                       },
                       "layers[1].first is 0: layer 4 is named by layers[0] already"},
                      {"the greatest number there is",
                       [](PoolSpec& s) { s.layers = {{.first = 0, .last = UINT32_MAX}}; },
                       "layers[0].last is 4294967295: "},
                  });
}

TEST_CASE("Raw takes bytes a token and no heads, dims or overrides") {
  CheckAllRefused(
      Raw(16, 100),
      {
          {"no bytes", [](PoolSpec& s) { s.raw_token_bytes = 0; }, "raw_token_bytes is 0: "},
          {"heads", [](PoolSpec& s) { s.num_kv_heads = 2; }, "num_kv_heads is 2: dtype raw "},
          {"dim", [](PoolSpec& s) { s.head_dim = 64; }, "head_dim is 64: dtype raw "},
          {"V dim", [](PoolSpec& s) { s.v_head_dim = 64; }, "v_head_dim is 64: dtype raw "},
          {"overrides", [](PoolSpec& s) { s.layers = {{.first = 0, .last = 0}}; },
           "layers is a list of 1: dtype raw "},
          {"high precision", [](PoolSpec& s) { s.high_precision_layers = 1; },
           "high_precision_layers is 1: dtype raw "},
      });
  PoolSpec spec = BaseSpec();
  spec.raw_token_bytes = 9;
  CheckRefused(spec, "raw_token_bytes is 9: it goes with dtype raw only, and dtype is fp8");
}

TEST_CASE("What V's mode leaves no room for is refused by field") {
  CheckAllRefused(BaseSpec(),
                  {
                      {"dim of a V that is not there",
                       [](PoolSpec& s) {
                         s.v_mode = VMode::kNone;
                         s.v_head_dim = 256;
                       },
                       "v_head_dim is 256: v_mode is NONE"},
                      {"the same of one layer",
                       [](PoolSpec& s) {
                         s.v_mode = VMode::kNone;
                         s.layers = {{.first = 1, .last = 1, .v_head_dim = 128}};
                       },
                       "layers[0].v_head_dim is 128: v_mode is NONE"},
                      {"another dim of a V that is K",
                       [](PoolSpec& s) {
                         s.v_mode = VMode::kAliasesK;
                         s.v_head_dim = 128;
                       },
                       "v_head_dim is 128: V aliases K, whose head_dim in layer 0 is 256"},
                      {"a pair without V",
                       [](PoolSpec& s) {
                         s.v_mode = VMode::kNone;
                         s.dtype = "fp8k4v";
                       },
                       "dtype is \"fp8k4v\": "},
                      {"a pair in one layer where V is K",
                       [](PoolSpec& s) {
                         s.v_mode = VMode::kAliasesK;
                         s.layers = {{.first = 1, .last = 1, .dtype = "bf16k_turbo4v"}};
                       },
                       "layers[0].dtype is \"bf16k_turbo4v\": "},
                  });
  PoolSpec spec = BaseSpec();
  spec.v_mode = VMode::kAliasesK;
  spec.v_head_dim = spec.head_dim;
  CHECK(PlanPool(spec).ok());
}

TEST_CASE("On CUDA a side that is no multiple of 16 bytes is refused by field") {
  PoolSpec spec = BaseSpec();
  spec.devices = {"cuda:0"};
  spec.block_size = 1;
  spec.num_kv_heads = 1;
  spec.head_dim = 16;
  REQUIRE(PlanPool(spec).ok());
  spec.head_dim = 24;
  CheckRefused(spec, "head_dim is 24: a block's K in layer 0 is 24 bytes, and on CUDA ");
  spec.head_dim = 16;
  spec.v_head_dim = 8;
  CheckRefused(spec, "v_head_dim is 8: a block's V in layer 0 is 8 bytes, and on CUDA ");
  spec.v_head_dim = 0;
  spec.layers = {{.first = 2, .last = 3, .head_dim = 40}};
  CheckRefused(spec, "layers[0].head_dim is 40: a block's K in layer 2 is 40 bytes");
  spec.layers = {{.first = 2, .last = 3, .v_head_dim = 4}};
  CheckRefused(spec, "layers[0].v_head_dim is 4: a block's V in layer 2 is 4 bytes");
  // A scaled format: 8 + 1 bytes for 16 elements.
  spec.layers = {};
  spec.dtype = "turbo4";
  CheckRefused(spec, "head_dim is 16: a block's K in layer 0 is 9 bytes, and on CUDA ");
  spec.devices = {"host"};
  CHECK(PlanPool(spec).ok());

  PoolSpec raw = Raw(1, 24);
  raw.devices = {"cuda:0"};
  CheckRefused(raw, "raw_token_bytes is 24: a block's K in layer 0 is 24 bytes");
}

}  // namespace
}  // namespace kvpool
