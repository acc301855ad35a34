#pragma once

#include <cstdint>

namespace kvpool {

// Whether the spent answers of a session that holds `held` blocks are to be looked for, when its
// answers named `before` blocks and, with one more, name `after`.
//
// They are where answers name far more than is held. That alone is no sign of spent ones, as
// answers may name the same blocks, a prefix found over and over, and a search looks at every
// block of them all: so one is due only where their number has passed a power of two.
bool IsSweepDue(uint64_t before, uint64_t after, uint64_t held);

}  // namespace kvpool
