#pragma once

#include <memory>

#include "core/device/device.h"
#include "core/executor.h"
#include "core/mutex.h"

namespace kvpool {

// HostDevice keeps regions in memfds: shared memory without a name, whose fd is given to workers.
//
// A region is allocated whole at once (no room is an error here, not a SIGBUS later), sealed
// against shrinking, growing and further sealing, advised to use transparent huge pages, and not
// inherited by forked children. Operations run on the executor, one piece of work each; it must
// outlive the device.
class HostDevice final : public Device {
 public:
  explicit HostDevice(Executor& executor) : executor_(executor) {}

  const DeviceInfo& info() const override { return info_; }
  // MemTotal and MemAvailable, each cut to what this process's cgroup and every one above allow.
  absl::StatusOr<DeviceMemory> QueryMemory() const override;
  // As Device's; INVALID_ARGUMENT where `size_bytes` is 0, INTERNAL where the kernel refuses for
  // another reason than room.
  absl::StatusOr<std::unique_ptr<Region>> Allocate(uint64_t size_bytes,
                                                   absl::string_view name) override;
  void Fill(Region& region, std::span<const Extent> extents, uint8_t value,
            Completion done) override;
  // FAILED_PRECONDITION (DEVICE) where the host cannot touch one of the two.
  void Copy(const Region& source, Region& destination, std::span<const CopyExtent> extents,
            Completion done) override;
  void Read(const Region& region, std::span<const Extent> extents, std::span<std::byte> bytes,
            Completion done) override;
  void Write(Region& region, std::span<const Extent> extents, std::span<const std::byte> bytes,
             Completion done) override;

 private:
  const DeviceInfo info_{.kind = DeviceKind::kHost, .uuid = "", .name = "host memory"};
  Executor& executor_;
  // Held from the comparison with what is available until the memory is taken, so that two
  // allocations do not both count on the same bytes.
  Mutex allocation_mutex_;
};

}  // namespace kvpool
