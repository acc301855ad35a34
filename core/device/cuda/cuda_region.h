#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/device/cuda/device_context.h"
#include "core/device/device.h"

namespace kvpool::cuda {

// What a region's memory is a multiple of: a handle shares whole pages of that size, so nothing
// else may lie in them.
inline constexpr uint64_t kRegionPageBytes = uint64_t{2} << 20;

// CudaRegion is one allocation of device memory and its handle, made once. Keeps the context.
//
// Freed when destroyed, which waits for the device to be done with it. Processes that opened the
// handle keep the memory from being used again, and a handle may come again with other memory: who
// lets workers have it keeps the region until they are gone. Thread-safe.
class CudaRegion final : public Region {
 public:
  // INVALID_ARGUMENT where `size_bytes` is 0; RESOURCE_EXHAUSTED, with how much is needed and how
  // much there is, where there is no room; else as Driver::ToStatus says. Nothing is left behind
  // by a failure. Its bytes are whatever they were: who gives it out clears it first.
  static absl::StatusOr<std::unique_ptr<CudaRegion>> Create(std::shared_ptr<DeviceContext> context,
                                                            uint64_t size_bytes,
                                                            absl::string_view name);
  ~CudaRegion() override;

  CudaRegion(const CudaRegion&) = delete;
  CudaRegion& operator=(const CudaRegion&) = delete;

  uint64_t size_bytes() const override { return size_bytes_; }
  int shared_fd() const override { return -1; }
  std::span<const std::byte> ipc_handle() const override {
    return std::as_bytes(std::span(handle_.bytes));
  }

  DevicePointer base() const { return base_; }
  DeviceContext& context() const { return *context_; }

 private:
  CudaRegion(std::shared_ptr<DeviceContext> context, uint64_t size_bytes)
      : context_(std::move(context)), size_bytes_(size_bytes) {}

  const std::shared_ptr<DeviceContext> context_;
  const uint64_t size_bytes_;
  DevicePointer base_ = 0;
  IpcHandle handle_{};
};

}  // namespace kvpool::cuda
