#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"

namespace kvpool {

// A process's own mapping of a host region that it was given the fd of: the import side.
//
// Checks what it is given before it maps (seals, size), so that no later act of another process
// can make an access fault. Not inherited by forked children (MADV_DONTFORK). Unmaps when
// destroyed; move-only. Its bytes may be touched from any thread.
class MappedRegion {
 public:
  enum class Access { kReadOnly, kReadWrite };

  // Maps `size_bytes` of `fd`, which it does not keep. FAILED_PRECONDITION, saying which, where
  // the fd's size differs or a seal is missing; INTERNAL where mapping fails.
  static absl::StatusOr<MappedRegion> Map(int fd, uint64_t size_bytes, Access access);

  MappedRegion(MappedRegion&& other) noexcept;
  MappedRegion& operator=(MappedRegion&& other) noexcept;
  ~MappedRegion();

  std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }
  // Requires kReadWrite.
  std::span<std::byte> mutable_bytes();

 private:
  MappedRegion(std::byte* data, uint64_t size_bytes, Access access);

  std::byte* data_ = nullptr;
  uint64_t size_bytes_ = 0;
  Access access_ = Access::kReadOnly;
};

}  // namespace kvpool
