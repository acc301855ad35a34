#include "server/listener.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/default_sockets.h"
#include "core/status_macros.h"
#include "server/limits.h"
#include "server/system_error.h"

namespace kvpool::server {
namespace {

// Connections that wait to be accepted: more than workers that start together.
constexpr int kBacklog = 512;

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  KVPOOL_CHECK(path.size() < sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* Generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

bool IsSameFile(const struct stat& status, dev_t device, ino_t inode) {
  return status.st_dev == device && status.st_ino == inode;
}

// Whether the file that is open is the one at `path`.
bool IsStillAt(const std::string& path, int fd) {
  struct stat opened {};
  struct stat current {};
  return fstat(fd, &opened) == 0 && lstat(path.c_str(), &current) == 0 &&
         IsSameFile(current, opened.st_dev, opened.st_ino);
}

// Makes one directory with the mode whatever the umask is; it may be there already.
absl::Status MakeDirectory(const std::string& path, mode_t mode, std::optional<gid_t> group) {
  // Closed to others until it belongs to the group.
  if (mkdir(path.c_str(), 0700) != 0) {
    return errno == EEXIST ? absl::OkStatus()
                           : SystemError(absl::StrCat("cannot make the directory ", path), errno);
  }
  if (group.has_value() && chown(path.c_str(), static_cast<uid_t>(-1), *group) != 0) {
    return SystemError(absl::StrCat("cannot give ", path, " to group ", *group), errno);
  }
  if (chmod(path.c_str(), mode) != 0) {
    return SystemError(absl::StrCat("cannot set the mode of ", path), errno);
  }
  return absl::OkStatus();
}

absl::Status MakeDirectories(const ListenerSpec& spec) {
  const std::filesystem::path directory = std::filesystem::path(spec.path).parent_path();
  std::filesystem::path current;
  for (const std::filesystem::path& part : directory) {
    current /= part;
    struct stat status {};
    if (stat(current.c_str(), &status) == 0) {
      if (S_ISDIR(status.st_mode)) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("the socket ", spec.path, ": ", current.string(), " is not a directory"));
    }
    // Only the last is private: several sockets of several groups may lie below the others.
    const bool is_last = current == directory;
    KVPOOL_RETURN_IF_ERROR(MakeDirectory(current.string(), is_last ? 0750 : 0755,
                                         is_last ? spec.group : std::nullopt));
  }
  if (access(directory.c_str(), W_OK | X_OK) != 0) {
    return SystemError(absl::StrCat("the socket ", spec.path, ": cannot write to the directory ",
                                    directory.string()),
                       errno);
  }
  return absl::OkStatus();
}

bool AnswersAt(const std::string& path, int type) {
  const UniqueFd probe(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = AddressOf(path);
  return probe.is_valid() && (connect(probe.get(), Generic(address), sizeof(address)) == 0 ||
                              errno == EAGAIN || errno == EPROTOTYPE);
}

// Removes what a daemon that did not end cleanly left at `path`.
absl::Status RemoveStale(const std::string& path, int type) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    return errno == ENOENT ? absl::OkStatus() : SystemError(path, errno);
  }
  if (!S_ISSOCK(status.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is there and is not a socket"));
  }
  // The lock keeps out daemons of our own kind; others may listen without it.
  if (AnswersAt(path, type)) {
    return absl::FailedPreconditionError(absl::StrCat("another process serves ", path));
  }
  if (unlink(path.c_str()) != 0) return SystemError(absl::StrCat("cannot remove ", path), errno);
  return absl::OkStatus();
}

// Gives the bound socket its group and mode, in that order, as the mode is the group's too.
absl::Status OpenTo(const std::string& path, mode_t mode, std::optional<gid_t> group) {
  if (group.has_value() && lchown(path.c_str(), static_cast<uid_t>(-1), *group) != 0) {
    return SystemError(absl::StrCat("cannot give ", path, " to group ", *group), errno);
  }
  if (chmod(path.c_str(), mode) != 0) {
    return SystemError(absl::StrCat("cannot set the mode of ", path), errno);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SocketFile> SocketFile::Bind(const std::string& path, int type, mode_t mode,
                                            std::optional<gid_t> group) {
  KVPOOL_RETURN_IF_ERROR(RemoveStale(path, type));
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_valid()) return SystemError(path, errno);
  // The file that bind makes has the socket's own mode, less the umask: it is never open to more
  // than the owner before it is open to those meant, and the umask, which is the process's, stays.
  if (fchmod(fd.get(), 0600) != 0) return SystemError(path, errno);
  const sockaddr_un address = AddressOf(path);
  if (bind(fd.get(), Generic(address), sizeof(address)) != 0) {
    return SystemError(absl::StrCat("cannot bind ", path), errno);
  }
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return SystemError(path, errno);
  SocketFile file(path, std::move(fd), status.st_dev, status.st_ino);
  KVPOOL_RETURN_IF_ERROR(OpenTo(path, mode, group));
  if (listen(file.fd(), kBacklog) != 0) return SystemError(absl::StrCat("listen ", path), errno);
  return file;
}

SocketFile::~SocketFile() { Remove(); }

void SocketFile::Remove() const {
  if (!fd_.is_valid()) return;
  struct stat status {};
  if (lstat(path_.c_str(), &status) == 0 && IsSameFile(status, device_, inode_)) {
    unlink(path_.c_str());
  }
}

absl::StatusOr<SocketLock> SocketLock::Take(const std::string& socket_path) {
  const std::string path = socket_path + ".lock";
  while (true) {
    UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd.is_valid()) return SystemError(absl::StrCat("cannot open ", path), errno);
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return SystemError(absl::StrCat("cannot lock ", path), errno);
      return absl::FailedPreconditionError(absl::StrCat("another daemon serves ", socket_path));
    }
    // Its last owner may have removed the file between the two calls: then what is locked is
    // nobody's, and another daemon can lock a new file.
    if (IsStillAt(path, fd.get())) return SocketLock(path, std::move(fd));
  }
}

SocketLock::~SocketLock() { Remove(); }

void SocketLock::Remove() const {
  if (fd_.is_valid() && IsStillAt(path_, fd_.get())) unlink(path_.c_str());
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Bind(const ListenerSpec& spec) {
  if (spec.path.size() > kMaxSocketPathBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the socket ", spec.path, ": its path has ",
                                                   spec.path.size(), " bytes, more than ",
                                                   kMaxSocketPathBytes));
  }
  KVPOOL_RETURN_IF_ERROR(MakeDirectories(spec));
  KVPOOL_ASSIGN_OR_RETURN(SocketLock lock, SocketLock::Take(spec.path));
  KVPOOL_ASSIGN_OR_RETURN(SocketFile grpc,
                          SocketFile::Bind(spec.path, SOCK_STREAM, spec.mode, spec.group));
  if (!spec.has_region_socket()) {
    return absl::WrapUnique(new Listener(spec, std::move(lock), std::move(grpc), SocketFile()));
  }
  KVPOOL_ASSIGN_OR_RETURN(SocketFile region, SocketFile::Bind(spec.path + ".fd", SOCK_SEQPACKET,
                                                              spec.mode, spec.group));
  return absl::WrapUnique(new Listener(spec, std::move(lock), std::move(grpc), std::move(region)));
}

void Listener::RemoveFiles() const {
  grpc_.Remove();
  region_.Remove();
  lock_.Remove();
}

absl::Status MakePrivateDirectory(const std::string& path) {
  KVPOOL_RETURN_IF_ERROR(MakeDirectory(path, 0700, std::nullopt));
  return CheckPrivateDirectory(path, geteuid());
}

}  // namespace kvpool::server
