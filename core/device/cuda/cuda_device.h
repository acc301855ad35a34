#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/device/cuda/device_context.h"
#include "core/device/cuda/driver.h"
#include "core/device/cuda/kernel_module.h"
#include "core/device/cuda/lane.h"
#include "core/device/device.h"

namespace kvpool::cuda {

// CudaDevice is a GPU, or a part of one (MIG): regions are device memory, each of whose handles
// other processes open. Has a thread and a stream for each way that bytes go: within the device,
// to the host, to the device. Operations of one way are done in order, one at a time.
//
// Once the device has failed (health()), every operation and allocation is refused with the same
// error: nothing but a new process brings it back. Regions may outlive it. Thread-safe.
class CudaDevice final : public Device {
 public:
  // The device that `selector` means (see FindDevice), made ready. Besides FindDevice's and
  // Driver::ToStatus's errors: FAILED_PRECONDITION (DEVICE) where it cannot share its memory.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(std::shared_ptr<const Driver> driver,
                                                          absl::string_view selector);
  // Does what was asked for so far.
  ~CudaDevice() override;

  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const DeviceInfo& info() const override { return info_; }
  // What the device has and has left, all processes counted.
  absl::StatusOr<DeviceMemory> QueryMemory() const override;
  // As CudaRegion::Create; its bytes are zero.
  absl::StatusOr<std::unique_ptr<Region>> Allocate(uint64_t size_bytes,
                                                   absl::string_view name) override;
  void Fill(Region& region, std::span<const Extent> extents, uint8_t value,
            Completion done) override;
  // Either may be the host's, or, of the same driver, another GPU's.
  void Copy(const Region& source, Region& destination, std::span<const CopyExtent> extents,
            Completion done) override;
  void Read(const Region& region, std::span<const Extent> extents, std::span<std::byte> bytes,
            Completion done) override;
  void Write(Region& region, std::span<const Extent> extents, std::span<const std::byte> bytes,
             Completion done) override;
  // UNIMPLEMENTED where kernel_status() is not OK, or an offset or a size is no multiple of 4.
  void Sum(const Region& region, std::span<const Extent> extents, Dtype dtype,
           std::span<ExtentSums> results, Completion done) override;
  absl::Status health() const override { return context_->health(); }

  // OK, or why there are no kernels and operations on many small extents take longer.
  const absl::Status& kernel_status() const { return kernel_status_; }

 private:
  explicit CudaDevice(std::shared_ptr<DeviceContext> context);

  // The steps of Open.
  absl::Status CheckSharing() const;
  absl::Status LoadKernels();
  absl::Status MakeLanes();

  const std::shared_ptr<DeviceContext> context_;
  const DeviceInfo info_;
  absl::Status kernel_status_;
  std::unique_ptr<KernelModule> kernels_;  // Null where they cannot be had.
  std::unique_ptr<Lane> within_;
  std::unique_ptr<Lane> to_host_;
  std::unique_ptr<Lane> to_device_;
};

}  // namespace kvpool::cuda
