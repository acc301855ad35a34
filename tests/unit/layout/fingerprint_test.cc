#include "core/layout/fingerprint.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/layout/pool_layout.h"
#include "tests/support/catch.h"
#include "tests/unit/layout/specs.h"

namespace kvpool {
namespace {

using test::BaseSpec;
using test::Raw;

std::string FingerprintOf(const PoolSpec& spec) {
  const auto layout = PlanPool(spec);
  INFO(std::string(layout.status().message()));
  REQUIRE(layout.ok());
  return layout->fingerprint;
}

PoolSpec With(const std::function<void(PoolSpec&)>& change) {
  PoolSpec spec = BaseSpec();
  change(spec);
  return spec;
}

// Clients keep fingerprints, so these never change. They were computed apart from this code, by
// the description of the encoding in fingerprint.h.
TEST_CASE("Fingerprints of known pools never change") {
  CHECK(FingerprintOf(BaseSpec()) ==
        "2111a7eebb0f20689776bfb51d9dac91fa5d1e13f670f83498e887b79ae5144a");
  CHECK(FingerprintOf(With([](PoolSpec& s) {
          s.dtype = "fp8k_turbo4v";
          s.num_layers = 2;
          s.v_head_dim = 128;
          s.memory_order = MemoryOrder::kBlockMajor;
          s.layers = {{.first = 1, .last = 1, .dtype = "bf16", .num_kv_heads = 4}};
        })) == "c642af30ffd8fd6f4df04d09e66a3843ecc444c1abfe19ee774cacf136d13157");
  CHECK(FingerprintOf(With([](PoolSpec& s) {
          s.num_layers = 1;
          s.num_kv_heads = 1;
          s.head_dim = 576;
          s.dtype = "bf16";
          s.v_mode = VMode::kAliasesK;
        })) == "13cff6112acbd79277f9325dec76a2fce46ff485efe632d3bfbcac5e493d255e");
  PoolSpec raw = Raw(32, 100);
  raw.v_mode = VMode::kNone;
  CHECK(FingerprintOf(raw) == "87d4961740fd28d1195cce0eef3524ceff0d89708452f4abcfe672f21a98b09e");
}

TEST_CASE("A fingerprint tells apart every way in which bytes can lie") {
  const std::vector<std::function<void(PoolSpec&)>> changes = {
      [](PoolSpec&) {},
      [](PoolSpec& s) { s.block_size = 32; },
      [](PoolSpec& s) { s.num_layers = 11; },
      [](PoolSpec& s) { s.num_kv_heads = 4; },
      [](PoolSpec& s) { s.head_dim = 512; },
      // The same elements as 2 x 256, split otherwise.
      [](PoolSpec& s) {
        s.num_kv_heads = 4;
        s.head_dim = 128;
      },
      [](PoolSpec& s) { s.v_head_dim = 128; },
      [](PoolSpec& s) { s.dtype = "bf16"; },
      [](PoolSpec& s) { s.dtype = "fp16"; },
      // The same bytes, other bits.
      [](PoolSpec& s) { s.dtype = "nvfp4"; },
      [](PoolSpec& s) { s.dtype = "turbo4"; },
      [](PoolSpec& s) { s.dtype = "fp8k_turbo4v"; },
      [](PoolSpec& s) { s.v_mode = VMode::kAliasesK; },
      [](PoolSpec& s) { s.v_mode = VMode::kNone; },
      [](PoolSpec& s) { s.memory_order = MemoryOrder::kBlockMajor; },
      [](PoolSpec& s) { s.high_precision_layers = 1; },
      [](PoolSpec& s) { s.layers = {{.first = 0, .last = 0, .dtype = "bf16"}}; },
      [](PoolSpec& s) { s.layers = {{.first = 1, .last = 1, .dtype = "bf16"}}; },
      [](PoolSpec& s) { s.layers = {{.first = 1, .last = 1, .num_kv_heads = 4}}; },
      [](PoolSpec& s) { s.layers = {{.first = 1, .last = 1, .v_head_dim = 512}}; },
      [](PoolSpec& s) { s = Raw(16, 512); },
      [](PoolSpec& s) { s = Raw(32, 256); },
  };
  std::set<std::string> seen;
  for (size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    const std::string fingerprint = FingerprintOf(With(changes[i]));
    CHECK(fingerprint.size() == 64);
    CHECK(fingerprint.find_first_not_of("0123456789abcdef") == std::string::npos);
    CHECK(seen.insert(fingerprint).second);
  }
}

TEST_CASE("A fingerprint does not depend on whose the bytes are, how many or where") {
  const std::vector<std::function<void(PoolSpec&)>> changes = {
      [](PoolSpec& s) { s.name = "other"; },
      [](PoolSpec& s) { s.num_blocks = 77; },
      [](PoolSpec& s) {
        s.num_blocks.reset();
        s.memory_bytes = 1 << 24;
      },
      [](PoolSpec& s) {
        s.devices = {"host", "host"};
      },
      [](PoolSpec& s) { s.devices = {"cuda:3"}; },
      [](PoolSpec& s) { s.fill_on_alloc = Fill::kPoison; },
      [](PoolSpec& s) { s.cache_blocks_per_seq = 9; },
      [](PoolSpec& s) { s.max_blocks_per_tenant = 2; },
      [](PoolSpec& s) { s.tenants = {"a"}; },
  };
  const std::string base = FingerprintOf(BaseSpec());
  for (size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    CHECK(FingerprintOf(With(changes[i])) == base);
  }
}

TEST_CASE("A fingerprint does not depend on how the spec spells the geometry") {
  const std::string base = FingerprintOf(BaseSpec());
  CHECK(FingerprintOf(With([](PoolSpec& s) {
          s.block_size = 16;
          s.dtype = "fp8";
          s.v_head_dim = 256;
        })) == base);
  CHECK(FingerprintOf(With([](PoolSpec& s) {
          s.dtype = "bf16";
          s.head_dim = 64;
          s.num_kv_heads = 0;
          s.layers = {{.first = 0, .last = 4, .dtype = "fp8", .num_kv_heads = 2, .head_dim = 256},
                      {.first = 5, .last = 11, .dtype = "fp8", .num_kv_heads = 2, .head_dim = 256}};
        })) == base);
  CHECK(FingerprintOf(With([](PoolSpec& s) { s.dtype = "fp8k4v"; })) ==
        FingerprintOf(With([](PoolSpec& s) { s.dtype = "fp8k_turbo4v"; })));
  CHECK(FingerprintOf(With([](PoolSpec& s) { s.high_precision_layers = 6; })) ==
        FingerprintOf(With([](PoolSpec& s) { s.dtype = "bf16"; })));
}

}  // namespace
}  // namespace kvpool
