#pragma once

#include <cstddef>

#include "absl/status/statusor.h"

namespace kvpool::server {

// How many connections of each kind each listener can have, by the descriptors that there are.
struct FdBudget {
  size_t max_connections = 0;          // At most kMaxConnections.
  size_t max_process_connections = 0;  // Of these, of one process: an eighth, or kMinConnections.
  size_t max_fd_connections = 0;       // At most kMaxFdConnections.
};

// Lets the process have as many descriptors as its hard limit allows, and returns how many that is.
size_t RaiseFdLimit();

// Shares `fd_count` descriptors among the regions of the config's pools and so many listeners.
// Requires at least one listener.
// Errors: RESOURCE_EXHAUSTED, saying how many it takes: a listener would have fewer than
// kMinConnections, of both kinds together.
absl::StatusOr<FdBudget> ShareFds(size_t fd_count, size_t listener_count, size_t region_count);

}  // namespace kvpool::server
