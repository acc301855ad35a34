#include "core/device/cuda/cuda_region.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool::cuda {
namespace {

// What is said where `needed` bytes are not to be had. Asks what there is, which may be more than
// is needed: memory is taken in pages, and not in pieces.
absl::Status NoRoom(DeviceContext& context, uint64_t needed, absl::string_view name) {
  size_t free = 0;
  size_t total = 0;
  KVPOOL_RETURN_IF_ERROR(context.Check(context.api().cuMemGetInfo(&free, &total), "cuMemGetInfo"));
  return MakeError(absl::StatusCode::kResourceExhausted, {.reason = Reason::kDevice},
                   absl::StrCat(context.entry().uuid, ": region '", name, "' needs ", needed,
                                " bytes of device memory, ", free, " of ", total, " are free"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaRegion>> CudaRegion::Create(
    std::shared_ptr<DeviceContext> context, uint64_t size_bytes, absl::string_view name) {
  if (size_bytes == 0) return absl::InvalidArgumentError("device memory of 0 bytes");
  DeviceContext& device = *context;
  const Api& api = device.api();
  const DeviceContext::Scope scope(device);
  KVPOOL_RETURN_IF_ERROR(scope.status());
  if (size_bytes > std::numeric_limits<uint64_t>::max() - kRegionPageBytes) {
    return NoRoom(device, size_bytes, name);
  }
  const uint64_t whole_pages =
      (size_bytes + kRegionPageBytes - 1) / kRegionPageBytes * kRegionPageBytes;
  DevicePointer base = 0;
  const Result allocated = api.cuMemAlloc(&base, whole_pages);
  if (allocated == Result::kOutOfMemory) return NoRoom(device, whole_pages, name);
  KVPOOL_RETURN_IF_ERROR(device.Check(allocated, "cuMemAlloc"));
  // From here on the region frees.
  std::unique_ptr<CudaRegion> region(new CudaRegion(std::move(context), size_bytes));
  region->base_ = base;
  KVPOOL_RETURN_IF_ERROR(
      device.Check(api.cuIpcGetMemHandle(&region->handle_, base), "cuIpcGetMemHandle"));
  return region;
}

CudaRegion::~CudaRegion() {
  const DeviceContext::Scope scope(*context_);
  // A failure is remembered by the context where it is one; there is nobody to tell it here.
  if (scope.status().ok() && base_ != 0) {
    (void)context_->Check(context_->api().cuMemFree(base_), "cuMemFree");
  }
}

}  // namespace kvpool::cuda
