#include "core/device/cuda/cuda_importer.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "core/device/cuda/device_list.h"
#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool::cuda {
namespace {

// Between two looks at an event: the first ones soon, since most work ends soon; the later ones so
// seldom that they cost less than a hundredth of a core, at a few microseconds each.
constexpr std::chrono::microseconds kFirstPause{20};
constexpr std::chrono::microseconds kLongestPause{500};

// INVALID_ARGUMENT unless an open region is the one that is asked for: two daemons, or regions, of
// one name.
absl::Status CheckSame(const ImportRequest& request, absl::string_view device_uuid,
                       std::span<const std::byte> handle, uint64_t size_bytes) {
  const auto differs = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("region ", request.region_id, " of daemon '",
                                                   request.daemon_epoch, "' is open with another ",
                                                   what));
  };
  if (device_uuid != request.device_uuid) {
    return differs(absl::StrCat("device: ", device_uuid, ", not ", request.device_uuid));
  }
  if (size_bytes != request.size_bytes) {
    return differs(absl::StrCat("size: ", size_bytes, ", not ", request.size_bytes, " bytes"));
  }
  if (!std::ranges::equal(handle, request.handle)) return differs("handle");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ImportedMemory>> CudaImporter::Open(
    const ImportRequest& request) {
  // Held while the driver opens, so that who asks for the same region finds it open. A holder that
  // lets it go takes no part: the driver counts, and either order of its close and this open is
  // right.
  const MutexLock lock(mutex_);
  const Key key(request.daemon_epoch, request.region_id);
  if (const auto found = opened_.find(key); found != opened_.end()) {
    const Opened& opened = found->second;
    if (std::shared_ptr<const ImportedRegion> region = opened.region.lock()) {
      KVPOOL_RETURN_IF_ERROR(
          CheckSame(request, opened.device_uuid, opened.handle, region->size_bytes()));
      return region;
    }
  }
  KVPOOL_ASSIGN_OR_RETURN(std::shared_ptr<DeviceContext> context, NeedContext(request.device_uuid));
  KVPOOL_ASSIGN_OR_RETURN(
      std::shared_ptr<const ImportedRegion> region,
      ImportedRegion::Open(std::move(context), request.handle, request.size_bytes));
  std::erase_if(opened_, [](const auto& entry) { return entry.second.region.expired(); });
  opened_[key] = {.region = region,
                  .device_uuid = request.device_uuid,
                  .handle = {request.handle.begin(), request.handle.end()}};
  return region;
}

absl::StatusOr<std::vector<DeviceInfo>> CudaImporter::List() {
  std::shared_ptr<const Driver> driver;
  {
    const MutexLock lock(mutex_);
    KVPOOL_ASSIGN_OR_RETURN(driver, NeedDriver());
  }
  return ListDeviceInfos(*driver);
}

absl::Status CudaImporter::AwaitEvent(const std::string& device_uuid, void* event,
                                      std::stop_token stop) {
  std::shared_ptr<DeviceContext> context;
  {
    const MutexLock lock(mutex_);
    KVPOOL_ASSIGN_OR_RETURN(context, NeedContext(device_uuid));
  }
  const DeviceContext::Scope scope(*context);
  KVPOOL_RETURN_IF_ERROR(scope.status());
  // cuEventSynchronize cannot be ended, and turns unless the event was made to block.
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any never;  // What wakes it is `stop`.
  auto pause = kFirstPause;
  while (true) {
    const Result result = context->api().cuEventQuery(static_cast<Event>(event));
    if (result != Result::kNotReady) return context->Check(result, "cuEventQuery");
    never.wait_for(lock, stop, pause, [] { return false; });
    if (stop.stop_requested()) return absl::CancelledError("the wait for an event was ended");
    pause = std::min(2 * pause, kLongestPause);
  }
}

absl::StatusOr<std::shared_ptr<const Driver>> CudaImporter::NeedDriver() {
  if (driver_ == nullptr) {
    KVPOOL_ASSIGN_OR_RETURN(driver_, Driver::Load(library_));
  }
  return driver_;
}

absl::StatusOr<std::shared_ptr<DeviceContext>> CudaImporter::NeedContext(
    const std::string& device_uuid) {
  if (const auto found = contexts_.find(device_uuid); found != contexts_.end()) {
    return found->second;
  }
  // A number would be a device of this process, whoever meant it.
  if (!absl::StartsWith(device_uuid, "GPU-") && !absl::StartsWith(device_uuid, "MIG-")) {
    return absl::InvalidArgumentError(absl::StrCat("'", device_uuid, "' is no GPU's UUID"));
  }
  KVPOOL_ASSIGN_OR_RETURN(const std::shared_ptr<const Driver> driver, NeedDriver());
  KVPOOL_ASSIGN_OR_RETURN(const DeviceEntry entry,
                          FindDevice(*driver, absl::StrCat("cuda:", device_uuid)));
  KVPOOL_ASSIGN_OR_RETURN(std::shared_ptr<DeviceContext> context,
                          DeviceContext::Retain(driver, entry));
  return contexts_.emplace(device_uuid, std::move(context)).first->second;
}

}  // namespace kvpool::cuda

namespace kvpool {

GpuImporter& ProcessGpuImporter() {
  // Never destroyed: mappings may outlive every static object.
  static auto& importer = *new cuda::CudaImporter(cuda::DriverLibrary());
  return importer;
}

}  // namespace kvpool
