#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/device/device.h"

namespace kvpool {

// A region of another process's on a GPU, opened in this one: the import side of Region. Its bytes
// are at an address of this process's own, and stay there for as long as this lives, whatever
// becomes of their owner. Immutable; thread-safe.
class ImportedMemory {
 public:
  virtual ~ImportedMemory() = default;

  // Where it begins on the device: never to be followed on the host.
  virtual uint64_t base() const = 0;
  virtual uint64_t size_bytes() const = 0;
  // The device's number in this process, as its own CUDA calls and DLPack count.
  virtual int ordinal() const = 0;
};

// Which region to open.
struct ImportRequest {
  // A region is one of a daemon's life: bytes of a handle may come again with other memory.
  std::string daemon_epoch{};
  uint64_t region_id = 0;
  std::string device_uuid{};            // "GPU-..." or "MIG-...".
  std::span<const std::byte> handle{};  // As Region::ipc_handle.
  uint64_t size_bytes = 0;
};

// GpuImporter opens GPU memory of other processes in this one, in the primary context of the device
// that has its UUID, whatever number it has here. A region is opened once a process and counted:
// every holder has the same ImportedMemory, and the last one closes it. Thread-safe.
class GpuImporter {
 public:
  virtual ~GpuImporter() = default;

  // Errors, saying what to do: FAILED_PRECONDITION, PID_COLLISION, its owner has this process's
  // pid; DEVICE, no driver or no such device here, the owner is gone, or what the handle opens is
  // smaller. INVALID_ARGUMENT, a UUID or handle that is none, or a region of that epoch and id that
  // is open by another device, size or handle.
  virtual absl::StatusOr<std::shared_ptr<const ImportedMemory>> Open(
      const ImportRequest& request) = 0;

  // The GPUs that this process sees. Errors: FAILED_PRECONDITION (DEVICE), there is no driver.
  virtual absl::StatusOr<std::vector<DeviceInfo>> List() = 0;

  // Waits until what `event`, a CUevent of the device's primary context, was recorded after is
  // done, which is at once where it never was; the event must live until then. Errors: CANCELLED,
  // `stop` ended the wait; FAILED_PRECONDITION (DEVICE), no driver or no such device here; as the
  // driver says of the work, INTERNAL or FAILED_PRECONDITION (DEVICE_FAILED).
  virtual absl::Status AwaitEvent(const std::string& device_uuid, void* event,
                                  std::stop_token stop) = 0;
};

// The one of this process, by the driver that MakeGpus() would take. Never destroyed. In a build
// without the CUDA backend every call is FAILED_PRECONDITION (DEVICE).
GpuImporter& ProcessGpuImporter();

}  // namespace kvpool
