#include "core/device/host_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

#include "core/status_macros.h"

namespace kvpool {
namespace {

// What memfd_create accepts, so that a long name is cut instead of refused: NAME_MAX (255) less
// the kernel's own prefix "memfd:".
constexpr size_t kMaxNameLength = 249;

absl::Status SystemError(int error, absl::string_view call, uint64_t size_bytes) {
  // ErrnoToStatus names the error; of its codes only the want of room is for callers to tell.
  absl::Status status =
      absl::ErrnoToStatus(error, absl::StrCat(call, " for host memory of ", size_bytes, " bytes"));
  if (absl::IsResourceExhausted(status)) return status;
  return absl::InternalError(status.message());
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostRegion>> HostRegion::Create(uint64_t size_bytes,
                                                               absl::string_view name) {
  if (size_bytes == 0) return absl::InvalidArgumentError("host memory of 0 bytes");
  if (size_bytes > static_cast<uint64_t>(std::numeric_limits<off_t>::max())) {
    return absl::ResourceExhaustedError(
        absl::StrCat("host memory of ", size_bytes, " bytes is more than a file can have"));
  }
  const std::string cut_name(name.substr(0, kMaxNameLength));
  const int fd = memfd_create(cut_name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return SystemError(errno, "memfd_create", size_bytes);
  // From here on the region closes and unmaps.
  std::unique_ptr<HostRegion> region(new HostRegion(fd, size_bytes));
  KVPOOL_RETURN_IF_ERROR(region->Allocate());
  KVPOOL_RETURN_IF_ERROR(region->MapBytes());
  KVPOOL_RETURN_IF_ERROR(region->Seal());
  return region;
}

HostRegion::~HostRegion() {
  if (data_ != nullptr) munmap(data_, size_bytes_);
  close(fd_);
}

absl::Status HostRegion::Allocate() {
  // A memfd is born 0777; whoever finds it under /proc/<pid>/fd is held to its owner's rights.
  if (fchmod(fd_, S_IRUSR | S_IWUSR) != 0) return SystemError(errno, "fchmod", size_bytes_);
  int error = 0;
  do {
    // Undone by the kernel when a signal comes in between.
    error = posix_fallocate(fd_, 0, static_cast<off_t>(size_bytes_));
  } while (error == EINTR);
  if (error != 0) return SystemError(error, "posix_fallocate", size_bytes_);
  return absl::OkStatus();
}

absl::Status HostRegion::MapBytes() {
  void* data = mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (data == MAP_FAILED) return SystemError(errno, "mmap", size_bytes_);
  data_ = static_cast<std::byte*>(data);
  // A child that a library forks has no business with the bytes, and would keep them alive.
  if (madvise(data_, size_bytes_, MADV_DONTFORK) != 0) {
    return SystemError(errno, "madvise(MADV_DONTFORK)", size_bytes_);
  }
  // An advice: a kernel without huge pages for shared memory refuses it, and small ones serve. What
  // posix_fallocate took is by the system's setting alone, as it knows no mapping, whenever this
  // comes; where that is "advise", the kernel makes huge pages of those in time.
  (void)madvise(data_, size_bytes_, MADV_HUGEPAGE);
  return absl::OkStatus();
}

absl::Status HostRegion::Seal() {
  if (fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return SystemError(errno, "fcntl(F_ADD_SEALS)", size_bytes_);
  }
  return absl::OkStatus();
}

}  // namespace kvpool
