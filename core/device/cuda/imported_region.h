#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"

#include "core/device/cuda/device_context.h"
#include "core/device/gpu_importer.h"

namespace kvpool::cuda {

// ImportedRegion is another process's region in this one: the import side of CudaRegion. Its
// bytes are at an address of this process's own, in the context's device. They stay there, and
// the device keeps them from being used again, for as long as this lives, whatever becomes of
// their owner. Opening one handle twice gives the same bytes at the same address. Thread-safe.
class ImportedRegion final : public ImportedMemory {
 public:
  // Opens `handle`, of a region of `size_bytes` on the context's device. FAILED_PRECONDITION, each
  // with what to look at: PID_COLLISION where the owner has this process's pid as its own, or is
  // this process; DEVICE where the owner is gone, the region is on another device, or what is
  // there is smaller. INVALID_ARGUMENT where `handle` is not 64 bytes. Else as Driver::ToStatus.
  static absl::StatusOr<std::unique_ptr<ImportedRegion>> Open(
      std::shared_ptr<DeviceContext> context, std::span<const std::byte> handle,
      uint64_t size_bytes);
  ~ImportedRegion() override;

  ImportedRegion(const ImportedRegion&) = delete;
  ImportedRegion& operator=(const ImportedRegion&) = delete;

  DevicePointer base() const override { return base_; }
  uint64_t size_bytes() const override { return size_bytes_; }
  int ordinal() const override { return context_->entry().ordinal; }

 private:
  ImportedRegion(std::shared_ptr<DeviceContext> context, uint64_t size_bytes)
      : context_(std::move(context)), size_bytes_(size_bytes) {}

  absl::Status CheckSize() const;

  const std::shared_ptr<DeviceContext> context_;
  const uint64_t size_bytes_;
  DevicePointer base_ = 0;
};

}  // namespace kvpool::cuda
