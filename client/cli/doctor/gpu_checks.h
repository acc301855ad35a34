#pragma once

#include <vector>

#include "absl/status/statusor.h"

#include "client/cli/doctor/finding.h"
#include "core/device/device.h"
#include "kvpool/v1/inspect.pb.h"

namespace kvpool::cli {

// How many GPUs the daemon has pools or may have pools on, by what it says of itself.
int CountGpus(const v1::GetDaemonResponse& daemon);

// The GPUs that this process sees, as ListGpus has them, beside those of the daemon: a worker maps
// memory of those alone that it sees itself.
std::vector<Finding> CheckGpus(const absl::StatusOr<std::vector<DeviceInfo>>& here,
                               const v1::GetDaemonResponse& daemon);

// What the daemon found of CUDA IPC. Nothing where it has no GPU.
std::vector<Finding> CheckIpc(const v1::GetDaemonResponse& daemon);

}  // namespace kvpool::cli
