#pragma once

#include "absl/status/status.h"

#include "deploy/demo/workers.h"

namespace kvpool::demo {

// Runs the three workers as processes against the daemon, telling on stdout what happens, and
// prints the table. The first failure ends it.
absl::Status RunDemo(const WorkerOptions& options);

}  // namespace kvpool::demo
