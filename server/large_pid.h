#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

namespace kvpool::server {

// CUDA IPC takes two processes of the same pid for one, also where they are in pid namespaces of
// their own; and the first processes of containers all have the first pids. So the daemon of a
// container goes on under a pid that workers of others hardly have.

// The pid to wait for where pids go up to `pid_max`: 4096 and up to 20,000 more, as `random` says.
// FAILED_PRECONDITION where there are too few of them.
absl::StatusOr<pid_t> ChooseLargePid(int64_t pid_max, uint32_t random);

struct PidMove {
  pid_t old_pid = 0;
  pid_t new_pid = 0;
};

// Where this process's pid is below 1024 in a pid namespace that is not the machine's first, and
// there may be a CUDA driver: uses up pids until large ones come, forks, and returns in the child.
// The process itself never returns then. It passes on to the child SIGTERM, SIGINT, SIGHUP,
// SIGQUIT, SIGUSR1 and SIGUSR2, reaps, as the first process of a container must, whatever ends, and
// ends when the child does, with the child's exit code or 128 + the signal that ended it. The child
// has a process group of its own, so that a signal to the group comes once, and is killed if its
// parent dies.
//
// Returns nothing where there is no need. Where it cannot be done, says why, in words for an
// operator, and nothing has changed. Takes less than a second of the processor. Requires
// BlockSignals, and that there is one thread.
absl::StatusOr<std::optional<PidMove>> MoveToLargePid();

}  // namespace kvpool::server
