#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"

#include "server/unique_fd.h"

namespace kvpool::server {

// What two sockets have in common only if one process connected both.
struct ProcessKey {
  enum class Kind : uint8_t {
    kPidfdInode,  // Of pidfs (Linux 6.9): never used again while the system is up.
    kStartTime,   // The pid, and when its process started, in clock ticks.
  };
  Kind kind{};
  uint64_t number = 0;      // The inode, or the pid.
  uint64_t start_time = 0;  // With kStartTime.

  auto operator<=>(const ProcessKey&) const = default;
  template <typename H>
  friend H AbslHashValue(H state, const ProcessKey& key) {
    return H::combine(std::move(state), key.kind, key.number, key.start_time);
  }
};

// Who is at the other end of a unix socket.
struct PeerIdentity {
  pid_t pid = 0;  // As this process's pid namespace sees it; 0 where it cannot.
  uid_t uid = 0;
  UniqueFd pidfd;                 // None where the kernel gives none that is surely this process's.
  std::optional<ProcessKey> key;  // Absent where nothing proves it.
};

// Where a pidfd is asked for, best first: each stands for itself and those after it.
enum class PidfdSource : uint8_t {
  kSocket,  // SO_PEERPIDFD: the process that connected, whatever became of its pid.
  kPid,     // pidfd_open of the pid, where its process is old enough not to be another by now.
  kNone,
};

// Reads who connected `socket` (or made the socketpair). NOT_FOUND where that process is gone
// already; INTERNAL where the kernel refuses to tell.
absl::StatusOr<PeerIdentity> IdentifyPeer(int socket, PidfdSource best_source);

}  // namespace kvpool::server
