#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kvpool {

// What a process is to find where another has shared memory of a GPU with it.
struct IpcProbe {
  std::string device_uuid;        // "GPU-..." or "MIG-...".
  uint64_t size_bytes = 0;        // Of the region: 1 to kMaxIpcProbeBytes.
  uint64_t seed = 0;              // Of the pattern that it holds.
  std::vector<std::byte> handle;  // As Region::ipc_handle.

  bool operator==(const IpcProbe&) const = default;
};

inline constexpr uint64_t kMaxIpcProbeBytes = uint64_t{64} << 20;

// The probe as a line of text, without its newline, and back. INVALID_ARGUMENT, naming it, for a
// part that is missing or wrong; whether there is such a device and handle is not looked at.
std::string IpcProbeText(const IpcProbe& probe);
absl::StatusOr<IpcProbe> ParseIpcProbe(absl::string_view text);

// The bytes of the pattern: no two of its words of eight bytes are alike.
std::vector<std::byte> IpcPattern(uint64_t seed, uint64_t size_bytes);

// Opens the handle in this process, in the device's primary context, reads all of the region and
// compares. Must not be the process that owns it. Errors: FAILED_PRECONDITION (DEVICE, or
// PID_COLLISION), there is no driver or device, the handle cannot be opened, or other bytes are
// there; else as the driver says. In a build without the CUDA backend FAILED_PRECONDITION (DEVICE).
absl::Status RunIpcProbe(const IpcProbe& probe);

}  // namespace kvpool
