#include "tests/fakecuda/backing_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "tests/fakecuda/settings.h"

namespace fakecuda {
namespace {

// What is in every byte of new memory, so that what is not cleared shows.
constexpr int kFresh = 0xA5;

// Which byte of a file its maker locks alone, and which its importers share.
constexpr off_t kMakersByte = 0;
constexpr off_t kImportersByte = 1;

std::filesystem::path Directory() {
  return TheSettings()
      .Get("FAKECUDA_DIR")
      .value_or("/dev/shm/fakecuda-" + std::to_string(getuid()));
}

// Holds the directory's lock, against other processes and other threads.
class DirectoryLock {
 public:
  DirectoryLock() {
    std::filesystem::create_directories(Directory());
    fd_ = open(Directory().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~DirectoryLock() { close(fd_); }

  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int fd_ = -1;
};

// A lock of the open file, not of the process: it ends with the fd, however that ends.
bool LockByte(int fd, off_t byte, short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

// Whether nobody holds the file: neither its maker nor an importer.
bool IsAbandoned(int fd) {
  return LockByte(fd, kMakersByte, F_WRLCK) && LockByte(fd, kImportersByte, F_WRLCK);
}

// Removes what nobody holds and adds up the rest of the device's files.
uint64_t SweepAndSum(size_t device) {
  const std::string prefix = std::to_string(device) + "-";
  uint64_t sum = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Directory())) {
    const int fd = open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) continue;
    struct stat status = {};
    if (IsAbandoned(fd)) {
      unlink(entry.path().c_str());
    } else if (entry.path().filename().string().starts_with(prefix) && fstat(fd, &status) == 0) {
      sum += static_cast<uint64_t>(status.st_size);
    }
    close(fd);
  }
  return sum;
}

uint64_t DeviceBytes() { return TheSettings().GetNumber("FAKECUDA_MEMORY", uint64_t{256} << 20); }

std::optional<BackingStore::File> Map(int fd, uint64_t size) {
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    close(fd);
    return std::nullopt;
  }
  return BackingStore::File{.fd = fd, .data = data, .size = size};
}

}  // namespace

std::optional<BackingStore::File> BackingStore::Make(size_t device, const std::string& name,
                                                     uint64_t size) {
  const DirectoryLock lock;
  const uint64_t used = SweepAndSum(device);
  if (size > DeviceBytes() || used > DeviceBytes() - size) return std::nullopt;
  const std::filesystem::path path = Directory() / name;
  // What an importer still has of a name that is used again keeps its bytes, under another.
  if (std::filesystem::exists(path)) {
    const auto nonce = std::chrono::steady_clock::now().time_since_epoch().count();
    std::filesystem::rename(path, path.string() + ".old" + std::to_string(nonce));
  }
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return std::nullopt;
  if (!LockByte(fd, kMakersByte, F_WRLCK) ||
      posix_fallocate(fd, 0, static_cast<off_t>(size)) != 0) {
    close(fd);
    return std::nullopt;
  }
  auto file = Map(fd, size);
  if (file.has_value()) std::memset(file->data, kFresh, size);
  return file;
}

std::optional<BackingStore::File> BackingStore::Import(const std::string& name) {
  const DirectoryLock lock;
  const int fd = open((Directory() / name).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  struct stat status = {};
  // Whoever gets the maker's lock has found that there is no maker.
  const bool has_no_maker = LockByte(fd, kMakersByte, F_WRLCK);
  if (has_no_maker || !LockByte(fd, kImportersByte, F_RDLCK) || fstat(fd, &status) != 0) {
    close(fd);
    return std::nullopt;
  }
  return Map(fd, static_cast<uint64_t>(status.st_size));
}

void BackingStore::Close(const File& file) {
  munmap(file.data, file.size);
  close(file.fd);
  const DirectoryLock lock;
  SweepAndSum(0);
}

uint64_t BackingStore::UsedBytes(size_t device) {
  const DirectoryLock lock;
  return SweepAndSum(device);
}

}  // namespace fakecuda
