#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "core/device/cuda/cuda_device.h"
#include "core/device/cuda/cuda_region.h"
#include "core/error.h"
#include "tests/fakecuda/fixture.h"
#include "tests/gpu/waiting_device.h"

namespace kvpool::cuda {

using test::Ending;

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

  // The operations of the device, each waited for.
  test::WaitingDevice waiting() { return test::WaitingDevice(device()); }
  absl::Status Fill(Region& region, std::span<const Extent> extents, uint8_t value) {
    return waiting().Fill(region, extents, value);
  }
  absl::Status Copy(const Region& from, Region& to, std::span<const CopyExtent> extents) {
    return waiting().Copy(from, to, extents);
  }
  absl::Status Read(const Region& region, std::span<const Extent> extents,
                    std::span<std::byte> bytes) {
    return waiting().Read(region, extents, bytes);
  }
  absl::Status Write(Region& region, std::span<const Extent> extents,
                     std::span<const std::byte> bytes) {
    return waiting().Write(region, extents, bytes);
  }
  std::vector<std::byte> ReadAll(const Region& region) { return waiting().ReadAll(region); }

  const fakecuda::FreshDriver& fresh() const { return fresh_; }

 private:
  const fakecuda::FreshDriver fresh_;
  std::shared_ptr<const Driver> driver_;
  std::unique_ptr<CudaDevice> device_;
};

}  // namespace kvpool::cuda
