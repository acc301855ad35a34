#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "core/layout/dtype.h"
#include "core/layout/pool_spec.h"

namespace kvpool {

// One side of one layer, in any shard. Block b starts at `offset_bytes + b * stride_bytes` of its
// region and is `block_bytes` long: `data_bytes` of elements (token, head, element), then
// `scale_bytes` of scales.
struct SideLayout {
  Dtype dtype{};
  uint64_t offset_bytes = 0;
  uint64_t stride_bytes = 0;
  uint64_t block_bytes = 0;
  uint64_t data_bytes = 0;
  uint64_t scale_bytes = 0;
  uint32_t num_heads = 0;       // 0 with kRaw.
  uint32_t head_dim = 0;        // 0 with kRaw.
  uint64_t block_elements = 0;  // block_size * num_heads * head_dim; 0 with kRaw.

  bool operator==(const SideLayout&) const = default;
};

struct LayerLayout {
  SideLayout k;
  // Absent where the pool keeps no V; equal to `k` where V aliases K.
  std::optional<SideLayout> v;

  bool operator==(const LayerLayout&) const = default;
};

// What sizing by `memory_utilization` needs to know of a device.
struct DeviceMemory {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
};

// The layout that a PoolSpec leads to. A value: copied freely, never changed once made.
struct PoolLayout {
  PoolSpec spec;  // With every default filled in.
  uint32_t num_blocks = 0;
  uint64_t block_bytes = 0;  // Of one block in one shard, K and V of every layer.
  uint64_t shard_bytes = 0;  // Of one shard's region; on CUDA a multiple of 2 MiB.
  std::vector<LayerLayout> layers;
  // SHA-256 over block size, formats, heads, dims, raw bytes, V mode and memory order, in
  // lower-case hex: how bytes lie, not whose they are nor how many blocks there are.
  std::string fingerprint;

  bool operator==(const PoolLayout&) const = default;

  uint32_t num_shards() const { return static_cast<uint32_t>(spec.devices.size()); }
};

// Checks `spec`, fills in its defaults and computes the layout. Planning the spec filled in gives
// the same layout again.
//
// `devices` is looked at for a size by `memory_utilization` only, where the least over the devices
// counts. It has one entry for each of `spec.devices`, in order (one where that is empty), or is
// empty. `num_blocks` and `memory_bytes` are taken at the spec's word: what a device has not got
// shows when the memory is allocated.
//
// Errors: INVALID_ARGUMENT, naming the field and its value. RESOURCE_EXHAUSTED where a size by
// bytes or by utilization leaves no block at all.
absl::StatusOr<PoolLayout> PlanPool(const PoolSpec& spec,
                                    std::span<const DeviceMemory> devices = {});

// INVALID_ARGUMENT unless `name` is 1-63 characters of a-z, 0-9 and '-'.
absl::Status CheckPoolName(absl::string_view name);

// The greatest block count a pool may have: the ledger keeps one bit of an index for itself.
inline constexpr uint32_t kMaxBlocks = (1U << 31) - 1;
inline constexpr uint32_t kMaxLayers = 1024;
inline constexpr uint32_t kDefaultBlockSize = 16;

}  // namespace kvpool
