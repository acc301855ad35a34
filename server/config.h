#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/layout/pool_spec.h"
#include "kvpool/v1/admin.pb.h"

namespace kvpool::server {

// A unix socket to be reached by, checked and with every default filled in.
struct ListenerSpec {
  std::string path;  // At most kMaxSocketPathBytes.
  v1::Role role = v1::ROLE_UNSPECIFIED;
  std::string tenant;  // Empty: "uid-<n>" of the peer.
  mode_t mode = 0;
  std::optional<gid_t> group;

  // Whether its callers may map pools: whether there is a `<path>.fd` beside it.
  bool has_region_socket() const { return role != v1::ROLE_INSPECTOR; }
};

// What the daemon is to serve, and where. A value.
struct Config {
  std::vector<PoolSpec> pools;
  std::vector<ListenerSpec> listeners;
  // A directory that lies where anybody can make one, and holds the sockets: it must be the
  // daemon's own user's, and nobody else's to write. Empty: none.
  std::string private_directory;
};

// Reads a config file: JSON of `kvpool.v1.DaemonConfig`. Looks at the file and at the group
// database alone; makes nothing.
//
// Errors: NOT_FOUND or PERMISSION_DENIED, the file cannot be read; INVALID_ARGUMENT, what is there
// is no regular file or too long, or, naming the field's path, the value and (but for what only the
// whole tells) line and column, wrong. Each names the file.
absl::StatusOr<Config> LoadConfig(const std::string& path);

// The config of `json`; errors begin with `name`. As LoadConfig.
absl::StatusOr<Config> ParseConfig(absl::string_view name, absl::string_view json);

// No pools, a worker's and an operator's socket: those of FindDefaultSockets.
Config DefaultConfig(uid_t uid, const char* runtime_directory);

}  // namespace kvpool::server
