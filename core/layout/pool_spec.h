#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace kvpool {

// Where V of a layer lies.
enum class VMode : uint8_t {
  kSeparate,
  kAliasesK,  // V is read out of K's bytes.
  kNone,
};

// Where the blocks of a pool lie in its regions.
enum class MemoryOrder : uint8_t {
  kLayerMajor,  // Each side of each layer is one run of blocks.
  kBlockMajor,  // A block is one run: K and V of layer 0, of layer 1, and so on.
};

// What a block that changes hands holds.
enum class Fill : uint8_t {
  kUnspecified,    // The pool's.
  kAcrossTenants,  // Whatever is there if the same tenant had the block last, else zeros.
  kZero,
  kPoison,  // 0xFF in every byte: a NaN in bf16 and fp8.
};

// The names of the eviction policies, the default first.
inline constexpr std::array<absl::string_view, 2> kEvictionPolicies = {"learned", "leaf_lru"};

// An exception for layers `first` to `last`, both included. What is empty or 0 is the pool's.
struct LayerOverride {
  uint32_t first = 0;
  uint32_t last = 0;
  std::string dtype{};  // Braces, here and below, so that designated initialisers may leave it out.
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t v_head_dim = 0;

  bool operator==(const LayerOverride&) const = default;
};

// A pool's geometry as an operator writes it. Field for field `kvpool.v1.PoolSpec`, which says
// what each means.
struct PoolSpec {
  std::string name{};
  std::optional<uint32_t> block_size{};
  uint32_t num_layers = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t v_head_dim = 0;
  std::string dtype{};
  uint32_t raw_token_bytes = 0;
  std::vector<LayerOverride> layers{};
  uint32_t high_precision_layers = 0;
  VMode v_mode = VMode::kSeparate;
  // Exactly one of these three is set.
  std::optional<uint32_t> num_blocks{};
  std::optional<uint64_t> memory_bytes{};
  std::optional<double> memory_utilization{};
  uint64_t reserve_bytes = 0;
  std::vector<std::string> devices{};
  MemoryOrder memory_order = MemoryOrder::kLayerMajor;
  Fill fill_on_alloc = Fill::kUnspecified;
  uint32_t cache_blocks_per_seq = 0;
  std::string eviction_policy{};
  uint32_t max_blocks_per_tenant = 0;
  std::vector<std::string> tenants{};

  bool operator==(const PoolSpec&) const = default;
};

// The only device of host memory; "cuda:N", "cuda:GPU-<uuid>" and "cuda:MIG-<uuid>" are the others.
inline constexpr absl::string_view kHostDevice = "host";

}  // namespace kvpool
