#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/layout/dtype.h"
#include "core/layout/pool_layout.h"

namespace kvpool {

enum class DeviceKind : uint8_t { kHost, kCuda };

struct DeviceInfo {
  DeviceKind kind{};
  std::string uuid;  // CUDA: "GPU-..." or "MIG-...". Empty for the host.
  std::string name;
};

// Called once, when a device operation is over, on a thread of the device's choosing, maybe
// before the operation's call returns. Must not block.
using Completion = absl::AnyInvocable<void(absl::Status)>;

// A run of bytes of a region. Requires offset + size <= the region's size.
struct Extent {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
};

// One run to copy, from one region to another or within one; not overlapping.
struct CopyExtent {
  uint64_t source_bytes = 0;       // Offset in the source region.
  uint64_t destination_bytes = 0;  // Offset in the destination region.
  uint64_t size_bytes = 0;
};

// One device allocation: a shard's memory. Zero when made. Freed when destroyed; mappings in other
// processes live on. Thread-safe.
class Region {
 public:
  virtual ~Region() = default;

  virtual uint64_t size_bytes() const = 0;
  // A memfd, sealed against shrinking and growing, owned by the region: valid while it lives.
  // -1 for memory that is not the host's.
  virtual int shared_fd() const = 0;
  // The 64 bytes with which another process maps it: of cuIpcGetMemHandle, the same ones always.
  // Empty for memory that is not a CUDA device's.
  virtual std::span<const std::byte> ipc_handle() const { return {}; }
  // All its bytes, where the host can touch them; empty for a device's own memory.
  virtual std::span<std::byte> host_bytes() { return {}; }
  virtual std::span<const std::byte> host_bytes() const { return {}; }
};

// What identifies the content of one extent. Sums are over its elements in f64, in any order (to
// 1e-12 of a sum in element order), NaNs counted but not summed; 0 for formats that do not decode
// to numbers. `crc32c` is over the raw bytes, and exact.
struct ExtentSums {
  double sum = 0;
  double sum_of_squares = 0;
  double sum_of_absolutes = 0;
  uint64_t nan_count = 0;
  uint32_t crc32c = 0;
};

// Device allocates memory that other processes can map, and moves bytes in it.
//
// Operations are asynchronous: each returns at once and ends by its completion, when its effect
// is complete on the device. The spans that they are given must stay valid until then. Regions
// must outlive the operations on them. Thread-safe.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;

  // Total and free bytes, now.
  virtual absl::StatusOr<DeviceMemory> QueryMemory() const = 0;

  // Allocates a region of `size_bytes`. `name` shows in /proc/<pid>/maps, for people.
  // RESOURCE_EXHAUSTED, saying how much is needed and how much there is, where there is no room;
  // nothing is left behind then.
  virtual absl::StatusOr<std::unique_ptr<Region>> Allocate(uint64_t size_bytes,
                                                           absl::string_view name) = 0;

  // Sets every byte of the extents to `value`.
  virtual void Fill(Region& region, std::span<const Extent> extents, uint8_t value,
                    Completion done) = 0;

  // Copies each extent from `source` to `destination`. One of the two at least is this device's;
  // the other has host_bytes(), or is of another device of the kind.
  virtual void Copy(const Region& source, Region& destination, std::span<const CopyExtent> extents,
                    Completion done) = 0;

  // Reads the extents, one after the other, into `bytes`, which is exactly as long.
  virtual void Read(const Region& region, std::span<const Extent> extents,
                    std::span<std::byte> bytes, Completion done) = 0;

  // The reverse.
  virtual void Write(Region& region, std::span<const Extent> extents,
                     std::span<const std::byte> bytes, Completion done) = 0;

  // Adds up each extent, of elements of `dtype`, into `results`, one for each. UNIMPLEMENTED where
  // the device cannot, or not these extents: who reads the bytes adds them up.
  virtual void Sum(const Region& /*region*/, std::span<const Extent> /*extents*/, Dtype /*dtype*/,
                   std::span<ExtentSums> /*results*/, Completion done) {
    done(absl::UnimplementedError("the device does not add up"));
  }

  // OK, or, where the device is lost for good, FAILED_PRECONDITION (DEVICE_FAILED) and of what.
  // Every operation ends with that then.
  virtual absl::Status health() const { return absl::OkStatus(); }
};

}  // namespace kvpool
