#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "client/cli/doctor/finding.h"
#include "core/layout/pool_layout.h"

namespace kvpool::cli {

// Pids of containers begin at 1: below this one, two processes in two of them are likely to have
// the same.
inline constexpr pid_t kMinSafePid = 1024;

// The text of a file of /proc; empty where it cannot be read.
std::string ReadProc(const std::string& path);

// The pids of a process, as /proc/<pid>/status lists them ("NSpid:"): as the reader sees it, and on
// to its own pid namespace's. Empty where it does not.
std::vector<pid_t> ParsePids(absl::string_view status);

// The soft limit of that name, such as "Max open files", in /proc/<pid>/limits; 2^64 - 1 is
// unlimited. Absent where there is none such.
std::optional<uint64_t> ParseLimit(absl::string_view limits, absl::string_view name);

// What can be seen of the daemon's process from here.
struct DaemonProcess {
  std::vector<pid_t> pids{};  // As ParsePids; empty where it cannot be seen.
  std::string limits{};       // The text of /proc/<pid>/limits, or empty.
};

// The process that listens at `path`; nothing of it where it cannot be seen.
DaemonProcess FindDaemonProcess(const std::string& path);

// Whether pids are such that CUDA IPC works between the daemon and a process like this one, which
// calls itself `own_pid`: the two must differ, whatever pid namespaces they are in.
Finding CheckPids(const DaemonProcess& daemon, pid_t own_pid);

// The limits that GPUs (locked memory) and everybody (open files) need: the daemon's, or, where
// they cannot be seen, those of `own_limits`.
std::vector<Finding> CheckLimits(const DaemonProcess& daemon, absl::string_view own_limits,
                                 bool has_gpus);

// How much memory there is, as ReadMemoryLimits says it, of the node's `node_bytes`.
Finding CheckMemory(const absl::StatusOr<DeviceMemory>& memory, uint64_t node_bytes);

}  // namespace kvpool::cli
