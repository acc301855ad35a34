#pragma once

#include <cstdint>
#include <vector>

#include "client/cli/replay/trace.h"

namespace kvpool::replay {

// By request, whether its caller says at its end that it will not be gone on with: `percent` of
// the requests whose last full block no later request has, chosen at random, always the same.
std::vector<bool> ChooseDone(const Trace& trace, uint32_t percent);

}  // namespace kvpool::replay
