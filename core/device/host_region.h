#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/device/device.h"

namespace kvpool {

// HostRegion is a memfd, fully allocated and sealed against shrinking, growing and further
// sealing, and this process's mapping of it, which its owner alone may use.
//
// Nobody who has the fd can make an access through a mapping fault: they can write, and they can
// punch holes, which read as zeros. Forked children do not have the mapping. Thread-safe.
class HostRegion final : public Region {
 public:
  // INVALID_ARGUMENT where `size_bytes` is 0; RESOURCE_EXHAUSTED where the kernel has no room for
  // it; INTERNAL where it refuses otherwise. Nothing is left behind by a failure.
  static absl::StatusOr<std::unique_ptr<HostRegion>> Create(uint64_t size_bytes,
                                                            absl::string_view name);

  HostRegion(const HostRegion&) = delete;
  HostRegion& operator=(const HostRegion&) = delete;
  ~HostRegion() override;

  uint64_t size_bytes() const override { return size_bytes_; }
  int shared_fd() const override { return fd_; }

  std::span<std::byte> host_bytes() override { return {data_, size_bytes_}; }
  std::span<const std::byte> host_bytes() const override { return {data_, size_bytes_}; }

 private:
  HostRegion(int fd, uint64_t size_bytes) : fd_(fd), size_bytes_(size_bytes) {}

  // The steps of Create, on the fd that it made.
  absl::Status Allocate();
  absl::Status MapBytes();
  absl::Status Seal();

  const int fd_;
  const uint64_t size_bytes_;
  std::byte* data_ = nullptr;
};

}  // namespace kvpool
