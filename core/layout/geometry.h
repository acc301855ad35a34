#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"

#include "core/layout/pool_layout.h"

namespace kvpool {

// What each layer of a checked spec is made of: its override's own, else bf16 in a high-precision
// layer, else the pool's. Every field of the sides but the offsets and strides, which depend on
// the order of the whole pool and are 0.
//
// INVALID_ARGUMENT, naming the field that the wrong number came from: heads or dims of 0, elements
// that do not suit the format, bytes that overflow 64 bits, dims of a V that has none of its own.
absl::StatusOr<std::vector<LayerLayout>> ResolveLayers(const PoolSpec& spec);

}  // namespace kvpool
