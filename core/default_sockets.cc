#include "core/default_sockets.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "core/status_macros.h"

namespace kvpool {

DefaultSockets FindDefaultSockets(uid_t uid, const char* runtime_directory) {
  DefaultSockets sockets;
  std::string base;
  if (uid == 0) {
    base = "/run/kvpool";
  } else if (runtime_directory != nullptr && runtime_directory[0] == '/') {
    base = absl::StrCat(runtime_directory, "/kvpool");
  } else {
    base = absl::StrCat("/tmp/kvpool-", uid);
    sockets.private_directory = base;
  }
  sockets.worker_path = base + "/worker/kvpool.sock";
  sockets.operator_path = base + "/operator/kvpool.sock";
  return sockets;
}

absl::Status CheckPrivateDirectory(const std::string& path, uid_t uid) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, path);
  }
  if (S_ISDIR(status.st_mode) && status.st_uid == uid && (status.st_mode & 0022) == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      path,
      " is there and is not a directory of this user's that nobody else can write to; set "
      "XDG_RUNTIME_DIR or name other sockets"));
}

absl::StatusOr<DefaultSockets> FindTrustedDefaultSockets(uid_t uid, const char* runtime_directory) {
  DefaultSockets sockets = FindDefaultSockets(uid, runtime_directory);
  if (!sockets.private_directory.empty()) {
    KVPOOL_RETURN_IF_ERROR(CheckPrivateDirectory(sockets.private_directory, uid));
  }
  return sockets;
}

}  // namespace kvpool
