#pragma once

#include <functional>

#include "core/ids.h"

namespace kvpool {

// Where monotonic time comes from: steady_clock in the daemon, a hand-moved one in tests.
// Called from any thread.
using Clock = std::function<TimePoint()>;

}  // namespace kvpool
