#include "tests/integration/hostile/stolen_region.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "client/region_fd.h"
#include "core/status_macros.h"

namespace kvpool::test {

absl::StatusOr<client::OwnedFd> StolenRegion::Fetch(const std::string& address,
                                                    const std::string& session_id,
                                                    uint64_t region_id) {
  v1::RegionFdRequest request;
  request.set_session_id(session_id);
  request.set_region_id(region_id);
  v1::RegionFdResponse response;
  const std::string path = address.substr(std::strlen("unix:")) + ".fd";
  return client::FetchRegionFd(path, request, std::chrono::seconds(30), response);
}

absl::StatusOr<StolenRegion> StolenRegion::Map(client::OwnedFd fd, uint64_t size_bytes) {
  void* data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return absl::InternalError(strerrorname_np(errno));
  return StolenRegion(std::move(fd), static_cast<char*>(data), size_bytes);
}

bool StolenRegion::Do(absl::string_view attack) {
  const int fd = fd_.get();
  const auto size = static_cast<off_t>(size_bytes_);
  if (attack == "shrink") return ftruncate(fd, size / 2) == 0;
  if (attack == "empty") return ftruncate(fd, 0) == 0;
  if (attack == "grow") return ftruncate(fd, size * 2) == 0;
  if (attack == "extend") return fallocate(fd, 0, size, 4096) == 0;
  if (attack == "append") return pwrite(fd, "x", 1, size) == 1;
  if (attack == "seal-writes") return fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0;
  if (attack == "seal-future-writes") return fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0;
  if (attack == "chmod") return fchmod(fd, 0777) == 0;
  if (attack == "chown") return fchown(fd, getuid(), getgid()) == 0;
  if (attack == "reopen") {
    const client::OwnedFd again(open(absl::StrCat("/proc/self/fd/", fd).c_str(), O_RDWR));
    return again.get() >= 0;
  }
  if (attack == "collapse") return fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 4096) == 0;
  if (attack == "punch") {
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, size) == 0;
  }
  if (attack == "remove") return madvise(data_, size_bytes_, MADV_REMOVE) == 0;
  // The file's flags and position are shared with the daemon.
  if (attack == "append-mode") return fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK) == 0;
  if (attack == "seek") return lseek(fd, size, SEEK_SET) == size;
  if (attack == "scribble") {
    std::memset(data_, 0xA5, size_bytes_);
    return true;
  }
  errno = 0;
  return false;
}

std::string StolenRegion::Try(absl::string_view attack) {
  if (Do(attack)) return "ok";
  return errno == 0 ? "unknown" : strerrorname_np(errno);
}

}  // namespace kvpool::test
