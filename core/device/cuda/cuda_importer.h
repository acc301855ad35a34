#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/device/cuda/device_context.h"
#include "core/device/cuda/driver.h"
#include "core/device/cuda/imported_region.h"
#include "core/device/gpu_importer.h"
#include "core/mutex.h"

namespace kvpool::cuda {

// CudaImporter is this process's GpuImporter as CUDA has it. It retains the primary context of each
// device that it was asked about for as long as it lives; the thread's current context is the same
// after each call as before. Thread-safe: openings wait for each other, waits for nothing else.
class CudaImporter final : public GpuImporter {
 public:
  // `library` as Driver::Load has it, which is done by the first call that needs it, and again by
  // the next where it failed.
  explicit CudaImporter(std::string library) : library_(std::move(library)) {}

  CudaImporter(const CudaImporter&) = delete;
  CudaImporter& operator=(const CudaImporter&) = delete;

  // Errors also as of Driver::Load and ImportedRegion::Open.
  absl::StatusOr<std::shared_ptr<const ImportedMemory>> Open(const ImportRequest& request) override;

  // Errors as of Driver::Load and ListDevices.
  absl::StatusOr<std::vector<DeviceInfo>> List() override;

  // Errors also as of Driver::Load.
  absl::Status AwaitEvent(const std::string& device_uuid, void* event,
                          std::stop_token stop) override;

 private:
  // A region that was opened, and by what; expired once the last holder has let it go.
  struct Opened {
    std::weak_ptr<const ImportedRegion> region;
    std::string device_uuid;
    std::vector<std::byte> handle;
  };
  using Key = std::pair<std::string, uint64_t>;  // The daemon's epoch and the region's id.

  // The driver, loaded unless it is.
  absl::StatusOr<std::shared_ptr<const Driver>> NeedDriver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The device's context, retained unless it is.
  absl::StatusOr<std::shared_ptr<DeviceContext>> NeedContext(const std::string& device_uuid)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string library_;
  Mutex mutex_;
  std::shared_ptr<const Driver> driver_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<DeviceContext>> contexts_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, Opened> opened_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kvpool::cuda
