#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "core/device/cuda/cuda_device.h"
#include "core/device/cuda/cuda_region.h"
#include "core/error.h"
#include "core/mutex.h"
#include "tests/fakecuda/fixture.h"

namespace kvpool::cuda {

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

// A fake GPU, and its device here, opened when first asked for: the test sets the driver before.
class FakeGpu {
 public:
  const std::shared_ptr<const Driver>& driver() {
    if (driver_ == nullptr) {
      auto loaded = Driver::Load(FAKECUDA_LIBRARY);
      REQUIRE(loaded.ok());
      driver_ = *loaded;
    }
    return driver_;
  }
  CudaDevice& device() {
    if (device_ == nullptr) {
      auto opened = CudaDevice::Open(driver(), "cuda:0");
      REQUIRE(opened.ok());
      device_ = *std::move(opened);
    }
    return *device_;
  }
  std::unique_ptr<Region> Allocate(uint64_t size_bytes) {
    auto region = device().Allocate(size_bytes, "test");
    REQUIRE(region.ok());
    return *std::move(region);
  }

  absl::Status Fill(Region& region, std::span<const Extent> extents, uint8_t value) {
    Ending ending;
    device().Fill(region, extents, value, ending.Take());
    return ending.Wait();
  }
  absl::Status Copy(const Region& from, Region& to, std::span<const CopyExtent> extents) {
    Ending ending;
    device().Copy(from, to, extents, ending.Take());
    return ending.Wait();
  }
  absl::Status Read(const Region& region, std::span<const Extent> extents,
                    std::span<std::byte> bytes) {
    Ending ending;
    device().Read(region, extents, bytes, ending.Take());
    return ending.Wait();
  }
  absl::Status Write(Region& region, std::span<const Extent> extents,
                     std::span<const std::byte> bytes) {
    Ending ending;
    device().Write(region, extents, bytes, ending.Take());
    return ending.Wait();
  }
  std::vector<std::byte> ReadAll(const Region& region) {
    std::vector<std::byte> bytes(region.size_bytes());
    const std::vector<Extent> whole{{.offset_bytes = 0, .size_bytes = bytes.size()}};
    REQUIRE(Read(region, whole, bytes).ok());
    return bytes;
  }

  const fakecuda::FreshDriver& fresh() const { return fresh_; }

 private:
  const fakecuda::FreshDriver fresh_;
  std::shared_ptr<const Driver> driver_;
  std::unique_ptr<CudaDevice> device_;
};

}  // namespace kvpool::cuda
