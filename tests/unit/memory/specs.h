#pragma once

#include <string>
#include <vector>

#include "core/layout/pool_layout.h"
#include "tests/support/catch.h"

namespace kvpool::test {

// The layout of a spec that is known to be right.
inline PoolLayout Plan(const PoolSpec& spec) {
  const auto layout = PlanPool(spec);
  CAPTURE(layout.status().message());
  REQUIRE(layout.ok());
  return *layout;
}

// A small pool of 3 layers, of which the middle one has other heads. K and V have other head
// dims where V is its own.
inline PoolSpec SmallSpec(const std::string& dtype, MemoryOrder order, VMode v_mode,
                          uint32_t num_blocks = 7, uint32_t num_shards = 1) {
  PoolSpec spec;
  spec.name = "small";
  spec.block_size = 16;
  spec.num_layers = 3;
  spec.num_blocks = num_blocks;
  spec.memory_order = order;
  spec.v_mode = v_mode;
  spec.dtype = dtype;
  spec.devices.assign(num_shards, std::string(kHostDevice));
  if (dtype == "raw") {
    spec.raw_token_bytes = 5;
    return spec;
  }
  spec.num_kv_heads = 2;
  spec.head_dim = 8;
  if (v_mode == VMode::kSeparate) spec.v_head_dim = 4;
  spec.layers.push_back({.first = 1, .last = 1, .num_kv_heads = 3});
  return spec;
}

inline const std::vector<std::string>& AllDtypes() {
  static const std::vector<std::string> names{
      "fp32",          "fp16",   "bf16",   "fp8",    "nvfp4",
      "turbo8",        "turbo4", "turbo3", "turbo2", "turbo4k_turbo8v",
      "bf16k_turbo2v", "raw"};
  return names;
}

}  // namespace kvpool::test
