#include "core/layout/pool_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/layout/fingerprint.h"
#include "core/layout/geometry.h"
#include "core/layout/overflow.h"
#include "core/layout/placement.h"
#include "core/layout/spec_check.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

// min(total * u - used - reserve, free - reserve), floored at 0.
uint64_t UtilizationBudget(const PoolSpec& spec, const DeviceMemory& device) {
  const auto floored_difference = [](uint64_t a, uint64_t b) { return a > b ? a - b : 0; };
  const double share =
      std::floor(static_cast<double>(device.total_bytes) * *spec.memory_utilization);
  // A total near 2^64 may round up to 2^64, which does not convert back.
  const uint64_t allowed = share >= static_cast<double>(device.total_bytes)
                               ? device.total_bytes
                               : static_cast<uint64_t>(share);
  const uint64_t used = floored_difference(device.total_bytes, device.free_bytes);
  return std::min(floored_difference(floored_difference(allowed, used), spec.reserve_bytes),
                  floored_difference(device.free_bytes, spec.reserve_bytes));
}

absl::StatusOr<uint32_t> CountIn(const Placement& placement, uint64_t budget_bytes,
                                 absl::string_view field, const std::string& value) {
  const uint64_t count = placement.BlocksIn(budget_bytes);
  if (count == 0) {
    return absl::ResourceExhaustedError(absl::StrCat(field, " is ", value, ": no block fits in ",
                                                     budget_bytes, " bytes; one takes ",
                                                     placement.block_bytes(), " bytes"));
  }
  if (count > kMaxBlocks) {
    return WrongField(field, value,
                      absl::StrCat("it makes more than ", kMaxBlocks, " blocks of ",
                                   placement.block_bytes(), " bytes, the most of a pool"));
  }
  return static_cast<uint32_t>(count);
}

absl::StatusOr<uint32_t> CountBlocks(const PoolSpec& spec, const Placement& placement,
                                     std::span<const DeviceMemory> devices) {
  if (spec.num_blocks.has_value()) return *spec.num_blocks;
  if (spec.memory_bytes.has_value()) {
    return CountIn(placement, *spec.memory_bytes, "memory_bytes", absl::StrCat(*spec.memory_bytes));
  }
  const std::string value = absl::StrCat(*spec.memory_utilization);
  if (devices.empty()) {
    return WrongField("memory_utilization", value,
                      "it needs the devices at hand; size by num_blocks or memory_bytes");
  }
  uint64_t budget = std::numeric_limits<uint64_t>::max();
  std::string tightest;
  for (size_t i = 0; i < devices.size(); ++i) {
    const uint64_t on_device = UtilizationBudget(spec, devices[i]);
    if (on_device >= budget) continue;
    budget = on_device;
    tightest = absl::StrCat(value, " of ", devices[i].total_bytes, " bytes of ", spec.devices[i],
                            ", of which ", devices[i].free_bytes, " are free, and ",
                            spec.reserve_bytes, " are kept in reserve");
  }
  return CountIn(placement, budget, "memory_utilization", tightest);
}

}  // namespace

absl::StatusOr<PoolLayout> PlanPool(const PoolSpec& spec, std::span<const DeviceMemory> devices) {
  PoolLayout layout;
  KVPOOL_ASSIGN_OR_RETURN(layout.spec, CheckSpec(spec));
  KVPOOL_CHECK(devices.empty() || devices.size() == layout.spec.devices.size());

  KVPOOL_ASSIGN_OR_RETURN(std::vector<LayerLayout> layers, ResolveLayers(layout.spec));
  layout.fingerprint = Fingerprint(layout.spec, layers);
  KVPOOL_ASSIGN_OR_RETURN(const Placement placement,
                          Placement::Create(layout.spec, std::move(layers)));
  layout.block_bytes = placement.block_bytes();
  KVPOOL_ASSIGN_OR_RETURN(layout.num_blocks, CountBlocks(layout.spec, placement, devices));

  const std::optional<uint64_t> shard_bytes = placement.ShardBytes(layout.num_blocks);
  if (!shard_bytes.has_value() ||
      !CheckedProduct({*shard_bytes, layout.spec.devices.size()}).has_value()) {
    return WrongField(spec.num_blocks.has_value() ? "num_blocks" : "memory_bytes",
                      absl::StrCat(layout.num_blocks),
                      absl::StrCat("that many blocks of ", layout.block_bytes, " bytes in ",
                                   layout.spec.devices.size(), " shards overflow 64 bits"));
  }
  layout.shard_bytes = *shard_bytes;
  layout.layers = placement.Place(layout.num_blocks);
  return layout;
}

}  // namespace kvpool
