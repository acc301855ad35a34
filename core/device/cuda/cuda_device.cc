#include "core/device/cuda/cuda_device.h"

#include <array>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/device/cuda/cuda_region.h"
#include "core/device/cuda/transfers.h"
#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool::cuda {
namespace {

// A region of this kind of device.
const CudaRegion& Cast(const Region& region) {
  const auto* cuda = dynamic_cast<const CudaRegion*>(&region);
  KVPOOL_CHECK(cuda != nullptr);
  return *cuda;
}

bool IsInside(uint64_t offset_bytes, uint64_t size_bytes, uint64_t region_bytes) {
  return size_bytes <= region_bytes && offset_bytes <= region_bytes - size_bytes;
}

// Checks every extent before the first byte moves, and returns their sum.
uint64_t CheckedSum(std::span<const Extent> extents, const CudaRegion& region) {
  uint64_t sum = 0;
  for (const Extent& extent : extents) {
    KVPOOL_CHECK(IsInside(extent.offset_bytes, extent.size_bytes, region.size_bytes()));
    sum += extent.size_bytes;
  }
  return sum;
}

// Does `work` and waits for it.
absl::Status DoOn(Lane& lane, Lane::Work work) {
  std::promise<absl::Status> ended;
  lane.Post(std::move(work), [&](absl::Status status) { ended.set_value(std::move(status)); });
  return ended.get_future().get();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(std::shared_ptr<const Driver> driver,
                                                             absl::string_view selector) {
  KVPOOL_ASSIGN_OR_RETURN(const DeviceEntry entry, FindDevice(*driver, selector));
  KVPOOL_ASSIGN_OR_RETURN(std::shared_ptr<DeviceContext> context,
                          DeviceContext::Retain(std::move(driver), entry));
  std::unique_ptr<CudaDevice> device(new CudaDevice(std::move(context)));
  KVPOOL_RETURN_IF_ERROR(device->CheckSharing());
  KVPOOL_RETURN_IF_ERROR(device->LoadKernels());
  KVPOOL_RETURN_IF_ERROR(device->MakeLanes());
  return device;
}

CudaDevice::CudaDevice(std::shared_ptr<DeviceContext> context)
    : context_(std::move(context)),
      info_{.kind = DeviceKind::kCuda,
            .uuid = context_->entry().uuid,
            .name = context_->entry().name} {}

CudaDevice::~CudaDevice() = default;

absl::StatusOr<DeviceMemory> CudaDevice::QueryMemory() const {
  KVPOOL_RETURN_IF_ERROR(health());
  const DeviceContext::Scope scope(*context_);
  KVPOOL_RETURN_IF_ERROR(scope.status());
  size_t free = 0;
  size_t total = 0;
  KVPOOL_RETURN_IF_ERROR(
      context_->Check(context_->api().cuMemGetInfo(&free, &total), "cuMemGetInfo"));
  return DeviceMemory{.total_bytes = total, .free_bytes = free};
}

absl::StatusOr<std::unique_ptr<Region>> CudaDevice::Allocate(uint64_t size_bytes,
                                                             absl::string_view name) {
  KVPOOL_RETURN_IF_ERROR(health());
  KVPOOL_ASSIGN_OR_RETURN(std::unique_ptr<CudaRegion> region,
                          CudaRegion::Create(context_, size_bytes, name));
  // The driver promises nothing about what was there: another process's bytes, at worst.
  const std::array<Extent, 1> whole{{{.offset_bytes = 0, .size_bytes = size_bytes}}};
  KVPOOL_RETURN_IF_ERROR(
      DoOn(*within_, [&](Lane& lane) { return FillExtents(lane, *region, whole, 0); }));
  return region;
}

void CudaDevice::Fill(Region& region, std::span<const Extent> extents, uint8_t value,
                      Completion done) {
  const CudaRegion& to = Cast(region);
  CheckedSum(extents, to);
  within_->Post([&to, extents, value](Lane& lane) { return FillExtents(lane, to, extents, value); },
                std::move(done));
}

void CudaDevice::Copy(const Region& source, Region& destination,
                      std::span<const CopyExtent> extents, Completion done) {
  const CudaRegion& from = Cast(source);
  const auto* to = dynamic_cast<const CudaRegion*>(&destination);
  if (to == nullptr) {
    within_->Post(
        [](Lane&) {
          return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kDevice},
                           "device memory cannot be copied to another kind of device");
        },
        std::move(done));
    return;
  }
  for (const CopyExtent& extent : extents) {
    KVPOOL_CHECK(IsInside(extent.source_bytes, extent.size_bytes, from.size_bytes()));
    KVPOOL_CHECK(IsInside(extent.destination_bytes, extent.size_bytes, to->size_bytes()));
  }
  within_->Post([&from, to, extents](Lane& lane) { return CopyExtents(lane, from, *to, extents); },
                std::move(done));
}

void CudaDevice::Read(const Region& region, std::span<const Extent> extents,
                      std::span<std::byte> bytes, Completion done) {
  const CudaRegion& from = Cast(region);
  KVPOOL_CHECK(CheckedSum(extents, from) == bytes.size());
  to_host_->Post(
      [&from, extents, bytes](Lane& lane) { return ReadExtents(lane, from, extents, bytes); },
      std::move(done));
}

void CudaDevice::Write(Region& region, std::span<const Extent> extents,
                       std::span<const std::byte> bytes, Completion done) {
  const CudaRegion& to = Cast(region);
  KVPOOL_CHECK(CheckedSum(extents, to) == bytes.size());
  to_device_->Post(
      [&to, extents, bytes](Lane& lane) { return WriteExtents(lane, to, extents, bytes); },
      std::move(done));
}

void CudaDevice::Sum(const Region& region, std::span<const Extent> extents, Dtype dtype,
                     std::span<ExtentSums> results, Completion done) {
  const CudaRegion& from = Cast(region);
  CheckedSum(extents, from);
  if (kernels_ == nullptr) {
    to_host_->Post(
        [this](Lane&) {
          return absl::UnimplementedError(
              absl::StrCat(info_.uuid, " has no kernels to add up: ", kernel_status_.message()));
        },
        std::move(done));
    return;
  }
  to_host_->Post([&from, extents, dtype,
                  results](Lane& lane) { return SumExtents(lane, from, extents, dtype, results); },
                 std::move(done));
}

absl::Status CudaDevice::CheckSharing() const {
  int is_unified = 0;
  KVPOOL_RETURN_IF_ERROR(
      context_->Check(context_->api().cuDeviceGetAttribute(
                          &is_unified, Attribute::kUnifiedAddressing, context_->entry().ordinal),
                      "cuDeviceGetAttribute"));
  absl::Status shared = is_unified != 0 ? CudaRegion::Create(context_, 1, "probe").status()
                                        : absl::InternalError("no unified addressing");
  // A device that is lost or full, or is in use, is said to be that.
  if (shared.code() != absl::StatusCode::kInternal) return shared;
  return MakeError(
      absl::StatusCode::kFailedPrecondition, {.reason = Reason::kDevice},
      absl::StrCat(info_.uuid, " (", info_.name,
                   ") cannot share its memory with other processes: ", shared.message()));
}

absl::Status CudaDevice::LoadKernels() {
  const DeviceContext::Scope scope(*context_);
  KVPOOL_RETURN_IF_ERROR(scope.status());
  auto kernels = KernelModule::Load(context_);
  KVPOOL_RETURN_IF_ERROR(health());
  kernel_status_ = kernels.status();
  if (kernels.ok()) kernels_ = *std::move(kernels);
  return absl::OkStatus();
}

absl::Status CudaDevice::MakeLanes() {
  KVPOOL_ASSIGN_OR_RETURN(within_, Lane::Create(context_, kernels_.get(), "kvpool-gpu"));
  KVPOOL_ASSIGN_OR_RETURN(to_host_, Lane::Create(context_, kernels_.get(), "kvpool-gpu-read"));
  KVPOOL_ASSIGN_OR_RETURN(to_device_, Lane::Create(context_, kernels_.get(), "kvpool-gpu-writ"));
  return absl::OkStatus();
}

}  // namespace kvpool::cuda
