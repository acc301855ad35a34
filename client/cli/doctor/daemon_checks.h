#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "client/cli/doctor/finding.h"
#include "kvpool/v1/inspect.pb.h"

namespace kvpool::cli {

// What the daemon says of itself: whether it answers, its version beside kvpoolctl's own, its
// state, how it knows of the end of workers, and its warnings but for those of CUDA IPC, which
// CheckIpc has.
std::vector<Finding> CheckDaemon(const absl::StatusOr<v1::GetDaemonResponse>& daemon,
                                 absl::string_view own_version);

// The pools whose device has failed; nothing where there are none.
std::vector<Finding> CheckPools(const v1::ListPoolsResponse& pools);

// Whether a warning of the daemon's is of its test of CUDA IPC.
bool IsAboutIpc(absl::string_view warning);

}  // namespace kvpool::cli
