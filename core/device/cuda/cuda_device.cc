#include "core/device/cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <future>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/device/cuda/cuda_region.h"
#include "core/device/cuda/sums.h"
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

// Each of these checks every extent before the first byte moves.

void CheckInside(std::span<const Extent> extents, const CudaRegion& region) {
  for (const Extent& extent : extents) {
    KVPOOL_CHECK(IsInside(extent.offset_bytes, extent.size_bytes, region.size_bytes()));
  }
}

void CheckInside(std::span<const CopyExtent> extents, const Region& source,
                 const Region& destination) {
  for (const CopyExtent& extent : extents) {
    KVPOOL_CHECK(IsInside(extent.source_bytes, extent.size_bytes, source.size_bytes()));
    KVPOOL_CHECK(IsInside(extent.destination_bytes, extent.size_bytes, destination.size_bytes()));
  }
}

// To `size_bytes` where they lie one after the other.
std::vector<CopyExtent> ToRow(std::span<const Extent> extents, const CudaRegion& region,
                              uint64_t size_bytes) {
  CheckInside(extents, region);
  std::vector<CopyExtent> copies;
  copies.reserve(extents.size());
  uint64_t sum = 0;
  for (const Extent& extent : extents) {
    copies.push_back({.source_bytes = extent.offset_bytes,
                      .destination_bytes = sum,
                      .size_bytes = extent.size_bytes});
    sum += extent.size_bytes;
  }
  KVPOOL_CHECK(sum == size_bytes);
  return copies;
}

std::vector<CopyExtent> FromRow(std::span<const Extent> extents, const CudaRegion& region,
                                uint64_t size_bytes) {
  std::vector<CopyExtent> copies = ToRow(extents, region, size_bytes);
  for (CopyExtent& copy : copies) std::swap(copy.source_bytes, copy.destination_bytes);
  return copies;
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
    : context_(std::move(context)), info_(context_->entry().info()) {}

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
  CheckInside(extents, to);
  within_->Post([&to, extents, value](Lane& lane) { return FillExtents(lane, to, extents, value); },
                std::move(done));
}

void CudaDevice::Copy(const Region& source, Region& destination,
                      std::span<const CopyExtent> extents, Completion done) {
  CheckInside(extents, source, destination);
  const std::span<const std::byte> from_host = source.host_bytes();
  const std::span<std::byte> to_host = destination.host_bytes();
  if (!from_host.empty()) {
    const CudaRegion& to = Cast(destination);
    return to_device_->Post([from_host, &to, extents](
                                Lane& lane) { return CopyFromHost(lane, from_host, to, extents); },
                            std::move(done));
  }
  const CudaRegion& from = Cast(source);
  if (!to_host.empty()) {
    return to_host_->Post(
        [&from, to_host, extents](Lane& lane) { return CopyToHost(lane, from, to_host, extents); },
        std::move(done));
  }
  const CudaRegion& to = Cast(destination);
  within_->Post([&from, &to, extents](Lane& lane) { return CopyExtents(lane, from, to, extents); },
                std::move(done));
}

void CudaDevice::Read(const Region& region, std::span<const Extent> extents,
                      std::span<std::byte> bytes, Completion done) {
  const CudaRegion& from = Cast(region);
  to_host_->Post([&from, bytes, copies = ToRow(extents, from, bytes.size())](
                     Lane& lane) { return CopyToHost(lane, from, bytes, copies); },
                 std::move(done));
}

void CudaDevice::Write(Region& region, std::span<const Extent> extents,
                       std::span<const std::byte> bytes, Completion done) {
  const CudaRegion& to = Cast(region);
  to_device_->Post([&to, bytes, copies = FromRow(extents, to, bytes.size())](
                       Lane& lane) { return CopyFromHost(lane, bytes, to, copies); },
                   std::move(done));
}

void CudaDevice::Sum(const Region& region, std::span<const Extent> extents, Dtype dtype,
                     std::span<ExtentSums> results, Completion done) {
  const CudaRegion& from = Cast(region);
  CheckInside(extents, from);
  if (kernels_ == nullptr) {
    return to_host_->Post(
        [this](Lane&) {
          return absl::UnimplementedError(
              absl::StrCat(info_.uuid, " has no kernels to add up: ", kernel_status_.message()));
        },
        std::move(done));
  }
  const bool is_words = std::ranges::all_of(extents, [](const Extent& extent) {
    return (extent.offset_bytes | extent.size_bytes) % kSumAlignment == 0;
  });
  if (!is_words) {
    return to_host_->Post(
        [this](Lane&) {
          return absl::UnimplementedError(
              absl::StrCat(info_.uuid, " adds up only at multiples of ", kSumAlignment, " bytes"));
        },
        std::move(done));
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
