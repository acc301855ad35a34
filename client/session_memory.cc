// Session's calls of its memory: mapping it, and what waits for work on it.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "client/convert.h"
#include "client/event_releaser.h"
#include "client/session.h"
#include "client/session_core.h"
#include "core/device/gpu_importer.h"
#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool::client {
namespace {

absl::StatusOr<Mapping> MapHost(SessionCore& core, const v1::MemoryRegion& region,
                                Mapping::Access access) {
  v1::RegionFdRequest request;
  request.set_session_id(core.opened().id.ToString());
  request.set_region_id(region.region_id());
  OwnedFd fd;
  KVPOOL_RETURN_IF_ERROR(core.GetRegionFd(request, fd));
  KVPOOL_ASSIGN_OR_RETURN(MappedRegion mapped,
                          MappedRegion::Map(fd.get(), region.size_bytes(), access));
  return Mapping::Create(core.opened().layout, std::move(mapped), access, region.shard());
}

absl::StatusOr<Mapping> MapGpu(SessionCore& core, const v1::MemoryRegion& region,
                               Mapping::Access access) {
  // Of cuIpcGetMemHandle.
  constexpr size_t kHandleBytes = 64;
  if (region.device().kind() != v1::DEVICE_KIND_CUDA || region.device().uuid().empty()) {
    return Nonsense(
        absl::StrCat("shard ", region.shard(), " has a CUDA handle and no CUDA device"));
  }
  if (region.cuda_ipc().size() != kHandleBytes) {
    return Nonsense(absl::StrCat("shard ", region.shard(), " has a CUDA handle of ",
                                 region.cuda_ipc().size(), " bytes, not ", kHandleBytes));
  }
  KVPOOL_ASSIGN_OR_RETURN(std::shared_ptr<const ImportedMemory> memory,
                          core.gpus().Open({.daemon_epoch = core.opened().daemon_epoch,
                                            .region_id = region.region_id(),
                                            .device_uuid = region.device().uuid(),
                                            .handle = std::as_bytes(std::span(region.cuda_ipc())),
                                            .size_bytes = region.size_bytes()}));
  return Mapping::CreateOnGpu(core.opened().layout, std::move(memory), access, region.shard());
}

// The first of the pool's GPUs that this process sees: by it events are waited for.
absl::StatusOr<std::string> FindVisibleGpu(SessionCore& core) {
  std::vector<std::string> uuids;
  for (const v1::MemoryRegion& region : core.opened().regions) {
    if (region.has_cuda_ipc()) uuids.push_back(region.device().uuid());
  }
  if (uuids.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("pool '", core.opened().layout->spec.name,
                     "' is in the host's memory: there is no event of its device's to wait for"));
  }
  KVPOOL_ASSIGN_OR_RETURN(const std::vector<DeviceInfo> visible, core.gpus().List());
  for (const DeviceInfo& device : visible) {
    if (std::ranges::find(uuids, device.uuid) != uuids.end()) return device.uuid;
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kDevice},
                   absl::StrCat("none of the pool's GPUs is visible to this process: ",
                                absl::StrJoin(uuids, ", ")));
}

}  // namespace

absl::StatusOr<Mapping> Session::Map(uint32_t shard, Mapping::Access access) {
  KVPOOL_RETURN_IF_ERROR(core_->CheckUsable());
  const auto& regions = core_->opened().regions;
  const auto region = std::ranges::find(regions, shard, &v1::MemoryRegion::shard);
  if (region == regions.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shard ", shard, " of a pool with ", regions.size()));
  }
  if (region->has_shared_memory()) return MapHost(*core_, *region, access);
  if (region->has_cuda_ipc()) return MapGpu(*core_, *region, access);
  const v1::DeviceKind kind = region->device().kind();
  if (kind == v1::DEVICE_KIND_HOST || kind == v1::DEVICE_KIND_CUDA) {
    return Nonsense(absl::StrCat("shard ", shard, " has no handle that is known here"));
  }
  return absl::UnimplementedError(absl::StrCat("shard ", shard, " is on a device of kind ",
                                               static_cast<int>(kind),
                                               ", which this client does not know"));
}

absl::StatusOr<Published> Session::PublishAfter(void* event, const Prefix& prefix,
                                                std::span<const BlockRef> blocks, uint32_t skip) {
  KVPOOL_RETURN_IF_ERROR(core_->CheckUsable());
  KVPOOL_ASSIGN_OR_RETURN(const std::string device_uuid, FindVisibleGpu(*core_));
  const absl::Status done =
      core_->gpus().AwaitEvent(device_uuid, event, core_->event_releaser().stop_token());
  // The session's end ends the wait, too, and is then what to tell.
  KVPOOL_RETURN_IF_ERROR(core_->CheckUsable());
  KVPOOL_RETURN_IF_ERROR(done);
  return Publish(prefix, blocks, skip);
}

absl::Status Session::ReleaseAfter(void* event, std::vector<BlockLease>&& leases) {
  KVPOOL_RETURN_IF_ERROR(core_->CheckUsable());
  KVPOOL_ASSIGN_OR_RETURN(std::string device_uuid, FindVisibleGpu(*core_));
  core_->event_releaser().Add({.device_uuid = std::move(device_uuid), .handle = event},
                              std::exchange(leases, {}));
  return absl::OkStatus();
}

}  // namespace kvpool::client
