#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/layout/pool_spec.h"

namespace kvpool {

// The most devices, and so shards, of one pool.
inline constexpr size_t kMaxShards = 64;
// The most names in `PoolSpec.tenants`, and the most characters of each.
inline constexpr size_t kMaxTenants = 1024;
inline constexpr size_t kMaxTenantSize = 63;

// Checks each field of `spec` by itself and against the others, as far as no layer's bytes are
// needed for it, and fills in the defaults: block_size, dtype (by its canonical name),
// fill_on_alloc, devices. What is 0 because 0 has a meaning of its own (v_head_dim as head_dim)
// stays 0, so that a spec filled in checks and plans like the one it was made of.
//
// INVALID_ARGUMENT, naming the field as in the API (`layers[2].last`) and its value.
absl::StatusOr<PoolSpec> CheckSpec(const PoolSpec& spec);

// Whether a checked spec is on CUDA devices; else it is on host memory.
bool IsCuda(const PoolSpec& spec);

// INVALID_ARGUMENT saying that `field` is `value`, and why that is wrong.
absl::Status WrongField(absl::string_view field, absl::string_view value, absl::string_view why);

}  // namespace kvpool
