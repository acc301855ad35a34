#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace kvpool::test {

// Asks the fd socket beside that worker's socket ("unix:" and a path) for a region's memory, as the
// session's process. What it is given it closes at once.
absl::Status AskForRegion(const std::string& worker_socket, const std::string& session_id,
                          uint64_t region_id);

}  // namespace kvpool::test
