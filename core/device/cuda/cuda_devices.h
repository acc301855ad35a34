#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/device/cuda/cuda_device.h"
#include "core/device/cuda/driver.h"
#include "core/device/gpus.h"
#include "core/mutex.h"

namespace kvpool::cuda {

// CudaDevices are the GPUs of this process as CUDA has them: pools on one GPU share its threads and
// its context. Thread-safe.
class CudaDevices final : public Gpus {
 public:
  // `library` as Driver::Load has it.
  explicit CudaDevices(std::string library) : library_(std::move(library)) {}

  CudaDevices(const CudaDevices&) = delete;
  CudaDevices& operator=(const CudaDevices&) = delete;

  // Errors as of Driver::Load, FindDevice and CudaDevice::Open.
  absl::StatusOr<Device*> Find(absl::string_view selector) override;

  // Errors as of Driver::Load and ListDevices.
  absl::StatusOr<std::vector<DeviceInfo>> List() override;

 private:
  // Loads the driver unless it is.
  absl::Status NeedDriver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string library_;
  Mutex mutex_;
  std::shared_ptr<const Driver> driver_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::unique_ptr<CudaDevice>> devices_ ABSL_GUARDED_BY(mutex_);  // By UUID.
};

}  // namespace kvpool::cuda
