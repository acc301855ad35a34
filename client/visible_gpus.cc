#include "client/visible_gpus.h"

#include "core/device/gpu_importer.h"
#include "core/status_macros.h"

namespace kvpool::client {

absl::StatusOr<std::vector<std::string>> VisibleGpus() {
  KVPOOL_ASSIGN_OR_RETURN(const std::vector<DeviceInfo> devices, ProcessGpuImporter().List());
  std::vector<std::string> uuids;
  uuids.reserve(devices.size());
  for (const DeviceInfo& device : devices) uuids.push_back(device.uuid);
  return uuids;
}

}  // namespace kvpool::client
