#pragma once

#include <condition_variable>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"

#include "core/device/device.h"
#include "core/mutex.h"
#include "tests/support/catch.h"

namespace kvpool::test {

// What becomes of one operation that ends on another thread. Thread-safe.
class Ending {
 public:
  Completion Take() {
    return [this](absl::Status status) {
      const MutexLock lock(mutex_);
      status_ = std::move(status);
      changed_.notify_all();
    };
  }
  absl::Status Wait() {
    const MutexLock lock(mutex_);
    while (!status_.has_value()) changed_.wait(mutex_);
    return *status_;
  }
  bool is_over() {
    const MutexLock lock(mutex_);
    return status_.has_value();
  }

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<absl::Status> status_ ABSL_GUARDED_BY(mutex_);
};

// The operations of a device, each waited for.
class WaitingDevice {
 public:
  explicit WaitingDevice(Device& device) : device_(device) {}

  absl::Status Fill(Region& region, std::span<const Extent> extents, uint8_t value) {
    Ending ending;
    device_.Fill(region, extents, value, ending.Take());
    return ending.Wait();
  }
  absl::Status Copy(const Region& from, Region& to, std::span<const CopyExtent> extents) {
    Ending ending;
    device_.Copy(from, to, extents, ending.Take());
    return ending.Wait();
  }
  absl::Status Read(const Region& region, std::span<const Extent> extents,
                    std::span<std::byte> bytes) {
    Ending ending;
    device_.Read(region, extents, bytes, ending.Take());
    return ending.Wait();
  }
  absl::Status Write(Region& region, std::span<const Extent> extents,
                     std::span<const std::byte> bytes) {
    Ending ending;
    device_.Write(region, extents, bytes, ending.Take());
    return ending.Wait();
  }
  std::vector<std::byte> ReadAll(const Region& region) {
    std::vector<std::byte> bytes(region.size_bytes());
    const std::vector<Extent> whole{{.offset_bytes = 0, .size_bytes = bytes.size()}};
    REQUIRE(Read(region, whole, bytes).ok());
    return bytes;
  }

 private:
  Device& device_;
};

}  // namespace kvpool::test
