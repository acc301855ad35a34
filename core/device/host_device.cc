#include "core/device/host_device.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/device/host_region.h"
#include "core/device/memory_limits.h"
#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

// The bytes of a region that the host can touch.
template <typename AnyRegion>
auto BytesOf(AnyRegion& region) {
  const auto bytes = region.host_bytes();
  KVPOOL_CHECK(!bytes.empty());
  return bytes;
}

bool IsInside(uint64_t offset_bytes, uint64_t size_bytes, uint64_t region_bytes) {
  return size_bytes <= region_bytes && offset_bytes <= region_bytes - size_bytes;
}

// Checks every extent before the first byte moves, and returns their sum.
uint64_t CheckedSum(std::span<const Extent> extents, uint64_t region_bytes) {
  uint64_t sum = 0;
  for (const Extent& extent : extents) {
    KVPOOL_CHECK(IsInside(extent.offset_bytes, extent.size_bytes, region_bytes));
    sum += extent.size_bytes;
  }
  return sum;
}

}  // namespace

absl::StatusOr<DeviceMemory> HostDevice::QueryMemory() const { return ReadMemoryLimits(); }

absl::StatusOr<std::unique_ptr<Region>> HostDevice::Allocate(uint64_t size_bytes,
                                                             absl::string_view name) {
  const MutexLock lock(allocation_mutex_);
  // Asking the kernel for more than a cgroup allows may kill the process instead of failing.
  KVPOOL_ASSIGN_OR_RETURN(const DeviceMemory memory, QueryMemory());
  if (size_bytes > memory.free_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("region '", name, "' needs ", size_bytes,
                                                     " bytes of host memory, ", memory.free_bytes,
                                                     " are available"));
  }
  KVPOOL_ASSIGN_OR_RETURN(std::unique_ptr<Region> region, HostRegion::Create(size_bytes, name));
  return region;
}

void HostDevice::Fill(Region& region, std::span<const Extent> extents, uint8_t value,
                      Completion done) {
  const std::span<std::byte> bytes = BytesOf(region);
  CheckedSum(extents, bytes.size());
  executor_.Post([bytes, extents, value, done = std::move(done)]() mutable {
    for (const Extent& extent : extents) {
      std::memset(bytes.data() + extent.offset_bytes, value, extent.size_bytes);
    }
    done(absl::OkStatus());
  });
}

void HostDevice::Copy(const Region& source, Region& destination,
                      std::span<const CopyExtent> extents, Completion done) {
  if (source.host_bytes().empty() || destination.host_bytes().empty()) {
    executor_.Post([done = std::move(done)]() mutable {
      done(MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kDevice},
                     "the host cannot touch a device's memory: the device copies"));
    });
    return;
  }
  const std::span<const std::byte> from = BytesOf(source);
  const std::span<std::byte> to = BytesOf(destination);
  for (const CopyExtent& extent : extents) {
    KVPOOL_CHECK(IsInside(extent.source_bytes, extent.size_bytes, from.size()));
    KVPOOL_CHECK(IsInside(extent.destination_bytes, extent.size_bytes, to.size()));
  }
  executor_.Post([from, to, extents, done = std::move(done)]() mutable {
    for (const CopyExtent& extent : extents) {
      std::memcpy(to.data() + extent.destination_bytes, from.data() + extent.source_bytes,
                  extent.size_bytes);
    }
    done(absl::OkStatus());
  });
}

void HostDevice::Read(const Region& region, std::span<const Extent> extents,
                      std::span<std::byte> bytes, Completion done) {
  const std::span<const std::byte> from = BytesOf(region);
  KVPOOL_CHECK(CheckedSum(extents, from.size()) == bytes.size());
  executor_.Post([from, extents, bytes, done = std::move(done)]() mutable {
    std::byte* to = bytes.data();
    for (const Extent& extent : extents) {
      // An empty span may have no address, which memcpy must not be given even for no bytes.
      if (extent.size_bytes == 0) continue;
      std::memcpy(to, from.data() + extent.offset_bytes, extent.size_bytes);
      to += extent.size_bytes;
    }
    done(absl::OkStatus());
  });
}

void HostDevice::Write(Region& region, std::span<const Extent> extents,
                       std::span<const std::byte> bytes, Completion done) {
  const std::span<std::byte> to = BytesOf(region);
  KVPOOL_CHECK(CheckedSum(extents, to.size()) == bytes.size());
  executor_.Post([to, extents, bytes, done = std::move(done)]() mutable {
    const std::byte* from = bytes.data();
    for (const Extent& extent : extents) {
      if (extent.size_bytes == 0) continue;
      std::memcpy(to.data() + extent.offset_bytes, from, extent.size_bytes);
      from += extent.size_bytes;
    }
    done(absl::OkStatus());
  });
}

}  // namespace kvpool
