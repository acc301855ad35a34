#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/device/cuda/driver.h"
#include "core/device/device.h"

namespace kvpool::cuda {

// A GPU, or a part of one (MIG), that this process sees.
struct DeviceEntry {
  Ordinal ordinal = 0;  // Of this process: another's may be another device.
  std::string uuid;     // "GPU-..." or "MIG-...": the same in every process.
  std::string name;

  bool operator==(const DeviceEntry&) const = default;

  DeviceInfo info() const { return {.kind = DeviceKind::kCuda, .uuid = uuid, .name = name}; }
};

// All of them, by ordinal. Errors as Driver::ToStatus says.
absl::StatusOr<std::vector<DeviceEntry>> ListDevices(const Driver& driver);
// The same, as whoever knows of no ordinals has them.
absl::StatusOr<std::vector<DeviceInfo>> ListDeviceInfos(const Driver& driver);

// The one that a pool's `devices` means by "cuda:<ordinal>" or "cuda:<uuid>". INVALID_ARGUMENT
// where it is neither; FAILED_PRECONDITION (DEVICE), listing those there are, where there is none
// such.
absl::StatusOr<DeviceEntry> FindDevice(const Driver& driver, absl::string_view selector);

}  // namespace kvpool::cuda
