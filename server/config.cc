#include "server/config.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "core/default_sockets.h"
#include "core/layout/pool_layout.h"
#include "core/status_macros.h"
#include "proto/convert/json_check.h"
#include "proto/convert/layout_convert.h"
#include "server/limits.h"
#include "server/system_error.h"
#include "server/unique_fd.h"

namespace kvpool::server {
namespace {

// The error for `field` of the config: "<path>: <what is wrong>".
absl::Status FieldError(absl::string_view path, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", message));
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", absl::Utf8SafeCHexEscape(text), "'");
}

absl::StatusOr<std::string> ParseAddress(const std::string& path, absl::string_view address) {
  absl::string_view rest = address;
  if (!absl::ConsumePrefix(&rest, "unix:")) {
    return FieldError(path, absl::StrCat(Quoted(address),
                                         " is not \"unix:\" and a path: there are only unix "
                                         "sockets, TCP is not supported"));
  }
  if (!absl::StartsWith(rest, "/") || absl::EndsWith(rest, "/")) {
    return FieldError(path, absl::StrCat(Quoted(address), " is not an absolute path of a socket"));
  }
  if (absl::StrContains(rest, absl::string_view("\0", 1))) {
    return FieldError(path, absl::StrCat(Quoted(address), " has a NUL in it"));
  }
  std::string normal = std::filesystem::path(std::string(rest)).lexically_normal().string();
  // "//run" and "/run" are one; lexically_normal keeps two slashes, which may mean a host.
  normal.erase(0, normal.find_first_not_of('/') - 1);
  if (normal.size() > kMaxSocketPathBytes) {
    return FieldError(
        path, absl::StrCat(Quoted(address), " is ", normal.size(),
                           " bytes long; a socket's path has at most ", kMaxSocketPathBytes));
  }
  return normal;
}

absl::StatusOr<mode_t> ParseMode(const std::string& path, absl::string_view text, v1::Role role) {
  if (text.empty()) return role == v1::ROLE_OPERATOR ? 0600 : 0660;
  mode_t mode = 0;
  const bool has_length = text.size() == 3 || text.size() == 4;
  for (const char c : text) {
    if (!has_length || c < '0' || c > '7') {
      return FieldError(path, absl::StrCat(Quoted(text), " is not an octal mode such as 0660"));
    }
    mode = mode * 8 + static_cast<mode_t>(c - '0');
  }
  if (mode > 0777) {
    return FieldError(path, absl::StrCat(Quoted(text), " is over 0777"));
  }
  return mode;
}

absl::StatusOr<std::optional<gid_t>> ParseGroup(const std::string& path, const std::string& text) {
  if (text.empty()) return std::nullopt;
  gid_t number = 0;
  const bool is_number = std::ranges::all_of(
      text, [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); });
  if (is_number) {
    // The greatest number stands for "no group" in system calls.
    if (absl::SimpleAtoi(text, &number) && number != static_cast<gid_t>(-1)) return number;
    return FieldError(path, absl::StrCat(Quoted(text), " is no group's number"));
  }
  std::string buffer(16'384, '\0');
  group entry{};
  group* found = nullptr;
  if (getgrnam_r(text.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 ||
      found == nullptr) {
    return FieldError(path, absl::StrCat("there is no group ", Quoted(text)));
  }
  return found->gr_gid;
}

absl::Status CheckTenant(const std::string& path, absl::string_view tenant) {
  if (tenant.size() > kMaxNameBytes) {
    return FieldError(path, absl::StrCat(Quoted(tenant), " has ", tenant.size(),
                                         " bytes, more than ", kMaxNameBytes));
  }
  for (const char c : tenant) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) {
      return FieldError(path, absl::StrCat(Quoted(tenant), " is not printable ASCII"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ListenerSpec> ParseListener(const std::string& path, const v1::Listener& listener) {
  ListenerSpec spec;
  KVPOOL_ASSIGN_OR_RETURN(spec.path, ParseAddress(path + ".address", listener.address()));
  spec.role = listener.role();
  if (spec.role == v1::ROLE_UNSPECIFIED) {
    return FieldError(path + ".role", absl::StrCat(v1::Role_Name(spec.role),
                                                   ": a listener needs a role: ROLE_WORKER, "
                                                   "ROLE_INSPECTOR or ROLE_OPERATOR"));
  }
  KVPOOL_RETURN_IF_ERROR(CheckTenant(path + ".tenant", listener.tenant()));
  spec.tenant = listener.tenant();
  KVPOOL_ASSIGN_OR_RETURN(spec.mode, ParseMode(path + ".mode", listener.mode(), spec.role));
  KVPOOL_ASSIGN_OR_RETURN(spec.group, ParseGroup(path + ".group", listener.group()));
  if (listener.pool_bytes() > 0) {
    return FieldError(path + ".pool_bytes", absl::StrCat(listener.pool_bytes(),
                                                         ": pools of workers' own are not "
                                                         "supported"));
  }
  if (listener.pool_devices_size() > 0) {
    return FieldError(path + ".pool_devices[0]", absl::StrCat(Quoted(listener.pool_devices(0)),
                                                              ": pools of workers' own are not "
                                                              "supported"));
  }
  return spec;
}

absl::StatusOr<std::vector<ListenerSpec>> ParseListeners(const v1::DaemonConfig& config) {
  std::vector<ListenerSpec> listeners;
  std::map<std::string, int> owners;  // Of each path that is made.
  for (int i = 0; i < config.listeners_size(); ++i) {
    const std::string path = absl::StrCat("listeners[", i, "]");
    KVPOOL_ASSIGN_OR_RETURN(ListenerSpec spec, ParseListener(path, config.listeners(i)));
    for (const absl::string_view suffix : {"", ".fd", ".lock"}) {
      const auto [owner, is_new] = owners.try_emplace(absl::StrCat(spec.path, suffix), i);
      if (!is_new) {
        return FieldError(path + ".address",
                          absl::StrCat(Quoted(config.listeners(i).address()), ": ", owner->first,
                                       " is needed by listeners[", owner->second, "] too"));
      }
    }
    listeners.push_back(std::move(spec));
  }
  return listeners;
}

absl::StatusOr<std::vector<PoolSpec>> ParsePools(const v1::DaemonConfig& config) {
  std::vector<PoolSpec> pools;
  std::set<std::string> names;
  for (int i = 0; i < config.pools_size(); ++i) {
    const std::string path = absl::StrCat("pools[", i, "]");
    absl::StatusOr<PoolSpec> spec = SpecFromProto(config.pools(i));
    if (!spec.ok()) return FieldError(path, spec.status().message());
    if (!names.insert(spec->name).second) {
      return FieldError(path + ".name", absl::StrCat(Quoted(spec->name), " is another pool's too"));
    }
    // Only to check it: what depends on a device's memory is planned again when it is made.
    if (!spec->memory_utilization.has_value()) {
      const absl::StatusOr<PoolLayout> layout = PlanPool(*spec);
      if (!layout.ok()) return FieldError(path, layout.status().message());
    }
    pools.push_back(*std::move(spec));
  }
  return pools;
}

absl::StatusOr<Config> Convert(const v1::DaemonConfig& proto) {
  Config config;
  KVPOOL_ASSIGN_OR_RETURN(config.pools, ParsePools(proto));
  if (proto.listeners_size() == 0) {
    Config defaults = DefaultConfig(geteuid(), std::getenv("XDG_RUNTIME_DIR"));
    config.listeners = std::move(defaults.listeners);
    config.private_directory = std::move(defaults.private_directory);
  } else {
    KVPOOL_ASSIGN_OR_RETURN(config.listeners, ParseListeners(proto));
  }
  return config;
}

// What `mode` says that a file is instead of a regular one.
absl::string_view KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO or a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// Other kinds of files may never come to an end, or never begin.
absl::Status CheckIsFile(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return SystemError(path, errno);
  if (S_ISREG(status.st_mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": is ", KindOf(status.st_mode),
                                                 "; a config is read from a regular file"));
}

absl::Status Prefixed(absl::string_view name, const absl::Status& status) {
  return {status.code(), absl::StrCat(name, ": ", status.message())};
}

}  // namespace

absl::StatusOr<Config> ParseConfig(absl::string_view name, absl::string_view json) {
  v1::DaemonConfig proto;
  if (absl::Status status = ParseJson(json, proto); !status.ok()) return Prefixed(name, status);
  absl::StatusOr<Config> config = Convert(proto);
  if (!config.ok()) return Prefixed(name, config.status());
  return config;
}

absl::StatusOr<Config> LoadConfig(const std::string& path) {
  KVPOOL_RETURN_IF_ERROR(CheckIsFile(path));
  // Should it be another kind of file by now, it is not waited for.
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_valid()) return SystemError(path, errno);
  std::string text(kMaxConfigBytes + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(file.get(), text.data() + size, text.size() - size);
    if (got == 0) break;
    if (got > 0) {
      size += static_cast<size_t>(got);
    } else if (errno != EINTR) {
      return SystemError(path, errno);
    }
  }
  text.resize(size);
  if (text.size() > kMaxConfigBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": more than ", kMaxConfigBytes, " bytes"));
  }
  return ParseConfig(path, text);
}

Config DefaultConfig(uid_t uid, const char* runtime_directory) {
  Config config;
  DefaultSockets sockets = FindDefaultSockets(uid, runtime_directory);
  config.private_directory = std::move(sockets.private_directory);
  config.listeners.push_back({.path = std::move(sockets.worker_path),
                              .role = v1::ROLE_WORKER,
                              .tenant = "",
                              .mode = 0660,
                              .group = std::nullopt});
  config.listeners.push_back({.path = std::move(sockets.operator_path),
                              .role = v1::ROLE_OPERATOR,
                              .tenant = "",
                              .mode = 0600,
                              .group = std::nullopt});
  return config;
}

}  // namespace kvpool::server
