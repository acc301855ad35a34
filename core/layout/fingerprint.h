#pragma once

#include <span>
#include <string>

#include "core/layout/pool_layout.h"

namespace kvpool {

// The fingerprint of a pool: SHA-256, in lower-case hex, over what decides how the bytes of a
// block lie: block size, raw bytes, V mode, memory order, and for each side of each layer its
// format, heads and dim. Not over names, sizes, devices or offsets, so that pools of any number of
// blocks on any device can exchange blocks, and not over how the spec spells it.
//
// Stable for ever: clients keep it. Fields are hashed as name, type and value, names and texts
// after their lengths, so that no two geometries make the same bytes.
//
// `spec` is checked; `layers` are as ResolveLayers returns them, or placed.
std::string Fingerprint(const PoolSpec& spec, std::span<const LayerLayout> layers);

}  // namespace kvpool
