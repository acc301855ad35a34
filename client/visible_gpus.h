#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kvpool::client {

// The UUIDs of the GPUs that this process sees, in the order of its ordinals: what
// SessionOptions::device_uuids takes. Errors: FAILED_PRECONDITION (DEVICE), there is no CUDA driver
// here, or the library was built without its CUDA backend. Thread-safe.
absl::StatusOr<std::vector<std::string>> VisibleGpus();

}  // namespace kvpool::client
