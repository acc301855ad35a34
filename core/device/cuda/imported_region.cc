#include "core/device/cuda/imported_region.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool::cuda {
namespace {

absl::Status NotNow(Reason reason, const absl::Status& status, absl::string_view advice) {
  return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = reason},
                   absl::StrCat(status.message(), "; ", advice));
}

// What a handle that cannot be opened means, which the driver's own words do not say.
absl::Status Explain(Result result, const absl::Status& status) {
  switch (result) {
    case Result::kInvalidContext:
      return NotNow(Reason::kPidCollision, status,
                    "the region's owner has the same pid as this process, each in its own "
                    "container, or is this process: start one of them under another pid");
    case Result::kInvalidHandle:
    case Result::kInvalidValue:
      return NotNow(Reason::kDevice, status,
                    "the region's owner is gone or has freed it, or the handle is damaged: open a "
                    "new session");
    case Result::kMapFailed:
    case Result::kPeerAccessUnsupported:
    case Result::kTooManyPeers:
      return NotNow(Reason::kDevice, status,
                    "the region is on another device, or another part of this one: use the device "
                    "of its UUID");
    case Result::kAlreadyMapped:
      return NotNow(Reason::kDevice, status,
                    "another context of this process has the region: use the primary context");
    default:
      return status;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImportedRegion>> ImportedRegion::Open(
    std::shared_ptr<DeviceContext> context, std::span<const std::byte> handle,
    uint64_t size_bytes) {
  IpcHandle bytes{};
  if (handle.size() != sizeof(bytes.bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a handle of ", handle.size(), " bytes, not ", sizeof(bytes.bytes)));
  }
  std::memcpy(bytes.bytes, handle.data(), sizeof(bytes.bytes));
  DeviceContext& device = *context;
  const DeviceContext::Scope scope(device);
  KVPOOL_RETURN_IF_ERROR(scope.status());
  DevicePointer base = 0;
  const Result opened = device.api().cuIpcOpenMemHandle(&base, bytes, kIpcLazyEnablePeerAccess);
  if (opened != Result::kSuccess) {
    return Explain(opened, device.Check(opened, "cuIpcOpenMemHandle"));
  }
  // From here on it closes.
  std::unique_ptr<ImportedRegion> region(new ImportedRegion(std::move(context), size_bytes));
  region->base_ = base;
  KVPOOL_RETURN_IF_ERROR(region->CheckSize());
  return region;
}

ImportedRegion::~ImportedRegion() {
  const DeviceContext::Scope scope(*context_);
  if (scope.status().ok()) {
    (void)context_->Check(context_->api().cuIpcCloseMemHandle(base_), "cuIpcCloseMemHandle");
  }
}

absl::Status ImportedRegion::CheckSize() const {
  DevicePointer base = 0;
  size_t size = 0;
  KVPOOL_RETURN_IF_ERROR(context_->Check(context_->api().cuMemGetAddressRange(&base, &size, base_),
                                         "cuMemGetAddressRange"));
  if (base == base_ && size >= size_bytes_) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition, {.reason = Reason::kDevice},
      absl::StrCat(context_->entry().uuid, ": the handle opens ", size - (base_ - base),
                   " bytes where ", size_bytes_, " are expected: it is of another region"));
}

}  // namespace kvpool::cuda
