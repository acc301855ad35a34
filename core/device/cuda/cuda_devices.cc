#include "core/device/cuda/cuda_devices.h"

#include <utility>

#include "core/device/cuda/device_list.h"
#include "core/status_macros.h"

namespace kvpool::cuda {

absl::StatusOr<Device*> CudaDevices::Find(absl::string_view selector) {
  const MutexLock lock(mutex_);
  KVPOOL_RETURN_IF_ERROR(NeedDriver());
  KVPOOL_ASSIGN_OR_RETURN(const DeviceEntry entry, FindDevice(*driver_, selector));
  const auto found = devices_.find(entry.uuid);
  if (found != devices_.end()) return found->second.get();
  KVPOOL_ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> opened, CudaDevice::Open(driver_, selector));
  return devices_.emplace(entry.uuid, std::move(opened)).first->second.get();
}

absl::StatusOr<std::vector<DeviceInfo>> CudaDevices::List() {
  const MutexLock lock(mutex_);
  KVPOOL_RETURN_IF_ERROR(NeedDriver());
  return ListDeviceInfos(*driver_);
}

absl::Status CudaDevices::NeedDriver() {
  if (driver_ != nullptr) return absl::OkStatus();
  KVPOOL_ASSIGN_OR_RETURN(driver_, Driver::Load(library_));
  return absl::OkStatus();
}

}  // namespace kvpool::cuda

namespace kvpool {

std::unique_ptr<Gpus> MakeGpus(std::string library) {
  return std::make_unique<cuda::CudaDevices>(library.empty() ? cuda::DriverLibrary()
                                                             : std::move(library));
}

}  // namespace kvpool
