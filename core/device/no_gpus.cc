// What stands for the GPUs in a build without the CUDA backend.

#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "core/device/gpu_importer.h"
#include "core/device/gpus.h"
#include "core/device/ipc_probe.h"
#include "core/error.h"

namespace kvpool {
namespace {

absl::Status NoBackend() {
  return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kDevice},
                   "this build has no CUDA backend (KVPOOL_CUDA=OFF)");
}

class NoGpus final : public Gpus {
 public:
  absl::StatusOr<Device*> Find(absl::string_view /*selector*/) override { return NoBackend(); }
  absl::StatusOr<std::vector<DeviceInfo>> List() override { return NoBackend(); }
};

class NoImporter final : public GpuImporter {
 public:
  absl::StatusOr<std::shared_ptr<const ImportedMemory>> Open(
      const ImportRequest& /*request*/) override {
    return NoBackend();
  }
  absl::StatusOr<std::vector<DeviceInfo>> List() override { return NoBackend(); }
  absl::Status AwaitEvent(const std::string& /*device_uuid*/, void* /*event*/,
                          std::stop_token /*stop*/) override {
    return NoBackend();
  }
};

}  // namespace

std::unique_ptr<Gpus> MakeGpus(std::string /*library*/) { return std::make_unique<NoGpus>(); }

absl::Status RunIpcProbe(const IpcProbe& /*probe*/) { return NoBackend(); }

GpuImporter& ProcessGpuImporter() {
  static NoImporter importer;
  return importer;
}

}  // namespace kvpool
