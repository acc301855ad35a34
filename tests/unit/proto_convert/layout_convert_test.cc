#include "proto/convert/layout_convert.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool {
namespace {

// A spec in which every field has a value of its own.
PoolSpec FullSpec() {
  PoolSpec spec;
  spec.name = "full";
  spec.block_size = 32;
  spec.num_layers = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 64;
  spec.v_head_dim = 128;
  spec.dtype = "fp8k_turbo4v";
  spec.raw_token_bytes = 5;
  spec.layers = {{.first = 1, .last = 2, .dtype = "bf16", .num_kv_heads = 4},
                 {.first = 3, .last = 3, .head_dim = 32, .v_head_dim = 16}};
  spec.high_precision_layers = 1;
  spec.v_mode = VMode::kAliasesK;
  spec.memory_bytes = uint64_t{1} << 40;
  spec.reserve_bytes = (uint64_t{1} << 40) + 7;
  spec.devices = {"host", "cuda:1"};
  spec.memory_order = MemoryOrder::kBlockMajor;
  spec.fill_on_alloc = Fill::kPoison;
  spec.cache_blocks_per_seq = 11;
  spec.eviction_policy = "leaf_lru";
  spec.max_blocks_per_tenant = 13;
  spec.tenants = {"a", "b"};
  return spec;
}

TEST_CASE("A spec goes through the API and back unchanged") {
  CHECK(SpecFromProto(SpecToProto(FullSpec())).value() == FullSpec());
  CHECK(SpecFromProto(SpecToProto(PoolSpec{})).value() == PoolSpec{});
}

TEST_CASE("Each size and each enum value goes through the API and back") {
  PoolSpec spec = FullSpec();
  spec.memory_bytes.reset();
  spec.num_blocks = 0;  // Present and 0 is not absent.
  CHECK(SpecFromProto(SpecToProto(spec)).value() == spec);
  spec.num_blocks.reset();
  spec.memory_utilization = 0.25;
  CHECK(SpecFromProto(SpecToProto(spec)).value() == spec);
  for (const VMode mode : {VMode::kSeparate, VMode::kAliasesK, VMode::kNone}) {
    spec.v_mode = mode;
    CHECK(SpecFromProto(SpecToProto(spec)).value() == spec);
  }
  for (const MemoryOrder order : {MemoryOrder::kLayerMajor, MemoryOrder::kBlockMajor}) {
    spec.memory_order = order;
    CHECK(SpecFromProto(SpecToProto(spec)).value() == spec);
  }
  for (const Fill fill : {Fill::kUnspecified, Fill::kAcrossTenants, Fill::kZero, Fill::kPoison}) {
    spec.fill_on_alloc = fill;
    CHECK(SpecFromProto(SpecToProto(spec)).value() == spec);
  }
}

TEST_CASE("No field of the spec's message is left unset") {
  const v1::PoolSpec message = SpecToProto(FullSpec());
  const auto* descriptor = message.GetDescriptor();
  std::vector<std::string> unset;
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const auto* field = descriptor->field(i);
    const bool is_set = field->is_repeated()
                            ? message.GetReflection()->FieldSize(message, field) > 0
                            : message.GetReflection()->HasField(message, field);
    if (!is_set) unset.push_back(field->name());
  }
  // The two sizes that are not given.
  CHECK(unset == std::vector<std::string>{"num_blocks", "memory_utilization"});
}

TEST_CASE("What is unspecified becomes what the API says it means") {
  v1::PoolSpec message;
  const auto spec = SpecFromProto(message);
  REQUIRE(spec.ok());
  CHECK(spec->v_mode == VMode::kSeparate);
  CHECK(spec->memory_order == MemoryOrder::kLayerMajor);
  CHECK(spec->fill_on_alloc == Fill::kUnspecified);
  CHECK_FALSE(spec->block_size.has_value());
  CHECK_FALSE(spec->num_blocks.has_value());
}

TEST_CASE(
    "An enum number that the API does not know is INVALID_ARGUMENT, with the field and what it "
    "knows") {
  const auto refused = [](const v1::PoolSpec& message, const std::string& start) {
    const auto spec = SpecFromProto(message);
    REQUIRE(absl::IsInvalidArgument(spec.status()));
    CHECK(std::string(spec.status().message()).find(start) == 0);
  };
  v1::PoolSpec message;
  message.set_v_mode(static_cast<v1::VMode>(4));
  refused(message,
          "v_mode is 4, a number that the API does not know; it knows V_MODE_UNSPECIFIED = 0, "
          "V_MODE_SEPARATE = 1, V_MODE_ALIASES_K = 2, V_MODE_NONE = 3");
  message.clear_v_mode();
  message.set_memory_order(static_cast<v1::MemoryOrder>(-1));
  refused(message, "memory_order is -1,");
  message.clear_memory_order();
  message.set_fill_on_alloc(static_cast<v1::Fill>(99));
  refused(message, "fill_on_alloc is 99,");
}

TEST_CASE("A layout goes through the API and back unchanged") {
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  for (int step = 0; step < 100; ++step) {
    CAPTURE(seed, step);
    PoolSpec spec;
    spec.name = "p";
    spec.num_layers = 1 + random.Below(8);
    spec.num_kv_heads = 1 + random.Below(8);
    spec.head_dim = 16 * (1 + random.Below(16));
    spec.num_blocks = 1 + random.Below(1000);
    spec.v_mode = static_cast<VMode>(random.Below(3));
    spec.memory_order = static_cast<MemoryOrder>(random.Below(2));
    spec.dtype = spec.v_mode == VMode::kSeparate ? "bf16k_turbo3v" : "nvfp4";
    spec.high_precision_layers = random.Below(3);
    const auto layout = PlanPool(spec);
    REQUIRE(layout.ok());
    const v1::PoolLayout message = LayoutToProto(*layout);
    CHECK(message.layers_size() == static_cast<int>(spec.num_layers));
    CHECK(message.layers(0).has_v() == (spec.v_mode != VMode::kNone));
    CHECK(LayoutFromProto(message).value() == *layout);
  }
}

TEST_CASE("A layout that this version does not know is INVALID_ARGUMENT, by field") {
  PoolSpec spec;
  spec.name = "p";
  spec.num_layers = 2;
  spec.num_kv_heads = 1;
  spec.head_dim = 64;
  spec.num_blocks = 1;
  const v1::PoolLayout good = LayoutToProto(PlanPool(spec).value());
  REQUIRE(LayoutFromProto(good).ok());
  const auto refused = [](const v1::PoolLayout& message, const std::string& start) {
    const auto layout = LayoutFromProto(message);
    REQUIRE(absl::IsInvalidArgument(layout.status()));
    CHECK(std::string(layout.status().message()).find(start) == 0);
  };
  v1::PoolLayout message = good;
  message.mutable_layers(1)->mutable_k()->set_dtype("fp4");
  refused(message, "layers[1].k.dtype is \"fp4\"");
  message = good;
  message.mutable_layers(0)->mutable_v()->set_dtype("fp8k_turbo4v");
  refused(message, "layers[0].v.dtype is \"fp8k_turbo4v\"");
  message = good;
  message.mutable_layers(0)->clear_k();
  refused(message, "layers[0].k.dtype is \"\"");
  message = good;
  message.mutable_spec()->set_v_mode(static_cast<v1::VMode>(9));
  refused(message, "v_mode is 9");
}

}  // namespace
}  // namespace kvpool
