#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/device/device.h"

namespace kvpool {

// The GPUs of this process, each made ready when it is first asked for, and once, by whatever
// name. Nothing of a driver is touched before. What failed is tried again by the next call, since
// a driver may come up late. Devices live as long as this. Thread-safe; calls may take seconds.
class Gpus {
 public:
  virtual ~Gpus() = default;

  // The device that an entry of PoolSpec::devices means, "cuda:<number>" or "cuda:<uuid>". Errors:
  // INVALID_ARGUMENT, it is neither; FAILED_PRECONDITION (DEVICE), there is no driver or no such
  // device, or it cannot share its memory; UNAVAILABLE (DEVICE), it is not up yet.
  virtual absl::StatusOr<Device*> Find(absl::string_view selector) = 0;

  // All that there are, made ready or not. Errors as Find's.
  virtual absl::StatusOr<std::vector<DeviceInfo>> List() = 0;
};

// Those of the machine's CUDA driver; `library` is its path, empty: KVPOOL_LIBCUDA, else
// "libcuda.so.1". In a build without the CUDA backend every call is FAILED_PRECONDITION (DEVICE).
std::unique_ptr<Gpus> MakeGpus(std::string library = {});

}  // namespace kvpool
