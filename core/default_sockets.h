#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvpool {

// The paths of the sockets of a daemon whose config names none. The daemon makes them and everybody
// else looks for them by this alone.
struct DefaultSockets {
  std::string worker_path;
  std::string operator_path;
  // The directory that holds them, where it lies among names that anybody can make: it must be the
  // daemon's own user's, and nobody else's to write. Empty: it does not lie so.
  std::string private_directory;
};

// Those of a daemon that runs as `uid`: for root under /run/kvpool, for another user under
// `runtime_directory` (XDG_RUNTIME_DIR, may be null) or, where that is no absolute path, under
// /tmp/kvpool-<uid>.
DefaultSockets FindDefaultSockets(uid_t uid, const char* runtime_directory);

// Whether what `path` names, if anything, is a directory of `uid`'s own that nobody else can write
// to, and no link. Errors: FAILED_PRECONDITION, it is not; PERMISSION_DENIED and so on, it cannot
// be looked at.
absl::Status CheckPrivateDirectory(const std::string& path, uid_t uid);

// As FindDefaultSockets, for who is to connect to them as `uid`. Errors: as CheckPrivateDirectory.
absl::StatusOr<DefaultSockets> FindTrustedDefaultSockets(uid_t uid, const char* runtime_directory);

}  // namespace kvpool
