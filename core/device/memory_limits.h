#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/layout/pool_layout.h"

namespace kvpool {

// How much memory this process may still take without the kernel killing somebody for it: the
// node's own figures, cut to what its cgroup and every one above allow. The parsers are pure
// functions over the text of one kernel file each.

// MemTotal and MemAvailable of /proc/meminfo. INTERNAL where one is missing.
absl::StatusOr<DeviceMemory> ParseMeminfo(absl::string_view text);

// Where a process is in the cgroup hierarchies that can limit memory: paths as /proc/<pid>/cgroup
// (membership) and /proc/<pid>/mountinfo (mounts) have them.
struct CgroupPaths {
  std::optional<std::string> v2;  // Of the line "0::".
  std::optional<std::string> v1;  // Of the line whose controllers include "memory".

  bool operator==(const CgroupPaths&) const = default;
};
CgroupPaths ParseCgroupMembership(absl::string_view text);

// One mounted hierarchy: `root` is the cgroup that appears at `mount_point`.
struct CgroupMount {
  std::string root;
  std::string mount_point;

  bool operator==(const CgroupMount&) const = default;
};
struct CgroupMounts {
  std::optional<CgroupMount> v2;
  std::optional<CgroupMount> v1;  // The one with the memory controller.

  bool operator==(const CgroupMounts&) const = default;
};
CgroupMounts ParseCgroupMounts(absl::string_view mountinfo);

// A limit or a use: a number of bytes, or "max", which is 2^64 - 1. INTERNAL for anything else.
absl::StatusOr<uint64_t> ParseCgroupBytes(absl::string_view text);

// The number beside `key` in memory.stat, 0 where it is not there.
uint64_t ParseCgroupStat(absl::string_view text, absl::string_view key);

// Reads all of it for this process, now. `root` stands before every path, for tests. What a
// cgroup's use counts as clean file pages is available: the kernel drops them before it kills, as
// MemAvailable says of the node's. INTERNAL, naming it, for a file that cannot be made out.
absl::StatusOr<DeviceMemory> ReadMemoryLimits(const std::string& root = "");

}  // namespace kvpool
