#pragma once

#include "client/cli/replay/trace.h"
#include "tests/support/random.h"

namespace kvpool::test {

// A trace of conversations that share some beginnings, each a few turns long with pauses between,
// and of single requests: about `request_count` of them, in the order of their times.
replay::Trace GenerateTrace(Random& random, uint32_t request_count);

}  // namespace kvpool::test
