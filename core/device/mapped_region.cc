#include "core/device/mapped_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

absl::Status SystemError(int error, absl::string_view call, int fd) {
  const absl::Status status =
      absl::ErrnoToStatus(error, absl::StrCat(call, " of a region's fd ", fd));
  return absl::InternalError(status.message());
}

// Whether mapping `fd` is safe: as long as it should be, for good.
absl::Status CheckFd(int fd, uint64_t size_bytes) {
  struct stat file {};
  if (fstat(fd, &file) != 0) return SystemError(errno, "fstat", fd);
  const auto file_bytes = static_cast<uint64_t>(file.st_size);
  if (file_bytes != size_bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("the region's fd has ", file_bytes, " bytes instead of ", size_bytes));
  }
  // Fails for a file that cannot be sealed at all, which is the same to the caller.
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return absl::FailedPreconditionError("the region's fd is not sealed against shrinking");
  }
  if ((seals & F_SEAL_GROW) == 0) {
    return absl::FailedPreconditionError("the region's fd is not sealed against growing");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MappedRegion> MappedRegion::Map(int fd, uint64_t size_bytes, Access access) {
  KVPOOL_RETURN_IF_ERROR(CheckFd(fd, size_bytes));
  const int protection = access == Access::kReadWrite ? PROT_READ | PROT_WRITE : PROT_READ;
  void* data = mmap(nullptr, size_bytes, protection, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return SystemError(errno, "mmap", fd);
  MappedRegion region(static_cast<std::byte*>(data), size_bytes, access);
  if (madvise(data, size_bytes, MADV_DONTFORK) != 0) {
    return SystemError(errno, "madvise(MADV_DONTFORK)", fd);
  }
  return region;
}

MappedRegion::MappedRegion(std::byte* data, uint64_t size_bytes, Access access)
    : data_(data), size_bytes_(size_bytes), access_(access) {}

MappedRegion::MappedRegion(MappedRegion&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      access_(other.access_) {}

MappedRegion& MappedRegion::operator=(MappedRegion&& other) noexcept {
  // The old mapping goes with `old`; assigning to itself keeps it.
  MappedRegion old(std::move(other));
  std::swap(data_, old.data_);
  std::swap(size_bytes_, old.size_bytes_);
  std::swap(access_, old.access_);
  return *this;
}

MappedRegion::~MappedRegion() {
  if (data_ != nullptr) munmap(data_, size_bytes_);
}

std::span<std::byte> MappedRegion::mutable_bytes() {
  KVPOOL_CHECK(access_ == Access::kReadWrite);
  return {data_, size_bytes_};
}

}  // namespace kvpool
