#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "core/device/device.h"
#include "core/device/gpus.h"
#include "core/ids.h"

namespace kvpool::cli {

// Gpus::List, but DEADLINE_EXCEEDED where the driver has not answered after `limit`: it may hang
// for good, and the thread that asks it then goes on asking until the process ends.
absl::StatusOr<std::vector<DeviceInfo>> ListGpus(std::shared_ptr<Gpus> gpus, Duration limit);

}  // namespace kvpool::cli
