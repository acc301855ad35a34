#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "client/owned_fd.h"
#include "core/ids.h"
#include "kvpool/v1/layout.pb.h"

namespace kvpool::client {

// Asks the fd socket at `path` for a region's memory, as SharedMemoryFd in layout.proto says.
// Each of its few steps takes at most `timeout`.
//
// Errors: what the daemon answers; UNAVAILABLE, nobody is there or the connection ends;
// DEADLINE_EXCEEDED; INTERNAL, an answer that is not one response with exactly one fd.
absl::StatusOr<OwnedFd> FetchRegionFd(const std::string& path, const v1::RegionFdRequest& request,
                                      Duration timeout, v1::RegionFdResponse& response);

}  // namespace kvpool::client
