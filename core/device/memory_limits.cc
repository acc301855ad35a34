#include "core/device/memory_limits.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "core/status_macros.h"

namespace kvpool {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kKibibyte = 1024;

// Names of the files of one cgroup version.
struct CgroupFiles {
  absl::string_view limit;
  absl::string_view use;
  absl::string_view file_pages_key;
};
constexpr CgroupFiles kV2Files{"memory.max", "memory.current", "inactive_file"};
constexpr CgroupFiles kV1Files{"memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file"};

// Kernel files have no size to stat: read to the end. Absent where the file is not there.
std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

absl::StatusOr<uint64_t> ParseMeminfoLine(absl::string_view text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, key) || !absl::ConsumePrefix(&line, ":")) continue;
    uint64_t kibibytes = 0;
    if (!absl::ConsumeSuffix(&line, " kB") || !absl::SimpleAtoi(line, &kibibytes) ||
        kibibytes > kNoLimit / kKibibyte) {
      break;
    }
    return kibibytes * kKibibyte;
  }
  return absl::InternalError(absl::StrCat("/proc/meminfo has no figure for ", key));
}

// The directory of a process's cgroup below a mount. A path that the mount does not show (another
// namespace's) leads to the mount's own root, which is above it.
std::string DirectoryBelowMount(const CgroupMount& mount, absl::string_view path) {
  if (mount.root != "/" && !absl::ConsumePrefix(&path, mount.root)) return "";
  if (!absl::StartsWith(path, "/") || absl::StartsWith(path, "/..")) return "";
  return std::string(absl::StripSuffix(path, "/"));
}

// Cuts `memory` to what one cgroup allows. A cgroup without the files has no limit: a root, or
// one whose controller is off.
absl::Status ApplyCgroup(const std::string& directory, const CgroupFiles& files,
                         DeviceMemory& memory) {
  const auto limit_text = ReadFile(absl::StrCat(directory, "/", files.limit));
  const auto use_text = ReadFile(absl::StrCat(directory, "/", files.use));
  if (!limit_text.has_value() || !use_text.has_value()) return absl::OkStatus();
  const auto limit = ParseCgroupBytes(*limit_text);
  const auto use = ParseCgroupBytes(*use_text);
  if (!limit.ok() || !use.ok()) {
    return absl::InternalError(absl::StrCat(directory, "/", files.limit, " reads '", *limit_text,
                                            "' and ", files.use, " '", *use_text, "'"));
  }
  const uint64_t droppable = ParseCgroupStat(
      ReadFile(absl::StrCat(directory, "/memory.stat")).value_or(""), files.file_pages_key);
  const uint64_t kept = *use - std::min(*use, droppable);
  memory.total_bytes = std::min(memory.total_bytes, *limit);
  memory.free_bytes = std::min(memory.free_bytes, *limit - std::min(*limit, kept));
  return absl::OkStatus();
}

// Applies the process's cgroup and each above it, up to the mount's root.
absl::Status ApplyHierarchy(const std::string& root, const CgroupMount& mount,
                            absl::string_view path, const CgroupFiles& files,
                            DeviceMemory& memory) {
  const std::string top = absl::StrCat(root, mount.mount_point);
  std::string below = DirectoryBelowMount(mount, path);
  while (true) {
    KVPOOL_RETURN_IF_ERROR(ApplyCgroup(absl::StrCat(top, below), files, memory));
    if (below.empty()) return absl::OkStatus();
    below.resize(below.rfind('/'));
  }
}

}  // namespace

absl::StatusOr<DeviceMemory> ParseMeminfo(absl::string_view text) {
  DeviceMemory memory;
  KVPOOL_ASSIGN_OR_RETURN(memory.total_bytes, ParseMeminfoLine(text, "MemTotal"));
  KVPOOL_ASSIGN_OR_RETURN(memory.free_bytes, ParseMeminfoLine(text, "MemAvailable"));
  return memory;
}

CgroupPaths ParseCgroupMembership(absl::string_view text) {
  CgroupPaths paths;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    // hierarchy:controllers:path, where the path may have colons of its own.
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(fields[1], ',');
    if (fields[0] == "0" && fields[1].empty()) {
      paths.v2 = std::string(fields[2]);
    } else if (std::ranges::find(controllers, "memory") != controllers.end()) {
      paths.v1 = std::string(fields[2]);
    }
  }
  return paths;
}

CgroupMounts ParseCgroupMounts(absl::string_view mountinfo) {
  CgroupMounts mounts;
  for (const absl::string_view line : absl::StrSplit(mountinfo, '\n')) {
    // id parent device root mount_point options [optional...] - type source super_options
    const std::vector<absl::string_view> halves = absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    if (halves.size() != 2) continue;
    const std::vector<absl::string_view> front = absl::StrSplit(halves[0], ' ');
    const std::vector<absl::string_view> back = absl::StrSplit(halves[1], ' ');
    if (front.size() < 5 || back.size() < 3) continue;
    const CgroupMount mount{.root = std::string(front[3]), .mount_point = std::string(front[4])};
    const std::vector<absl::string_view> options = absl::StrSplit(back[2], ',');
    // The first mount of a hierarchy is as good as any later one.
    if (back[0] == "cgroup2" && !mounts.v2.has_value()) {
      mounts.v2 = mount;
    } else if (back[0] == "cgroup" && !mounts.v1.has_value() &&
               std::ranges::find(options, "memory") != options.end()) {
      mounts.v1 = mount;
    }
  }
  return mounts;
}

absl::StatusOr<uint64_t> ParseCgroupBytes(absl::string_view text) {
  const absl::string_view number = absl::StripSuffix(text, "\n");
  if (number == "max") return kNoLimit;
  uint64_t bytes = 0;
  if (!absl::SimpleAtoi(number, &bytes)) {
    return absl::InternalError(absl::StrCat("'", number, "' is no number of bytes"));
  }
  return bytes;
}

uint64_t ParseCgroupStat(absl::string_view text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    uint64_t value = 0;
    if (absl::ConsumePrefix(&line, key) && absl::ConsumePrefix(&line, " ") &&
        absl::SimpleAtoi(line, &value)) {
      return value;
    }
  }
  return 0;
}

absl::StatusOr<DeviceMemory> ReadMemoryLimits(const std::string& root) {
  const auto meminfo = ReadFile(absl::StrCat(root, "/proc/meminfo"));
  if (!meminfo.has_value()) return absl::InternalError("/proc/meminfo cannot be read");
  KVPOOL_ASSIGN_OR_RETURN(DeviceMemory memory, ParseMeminfo(*meminfo));
  const CgroupPaths paths =
      ParseCgroupMembership(ReadFile(absl::StrCat(root, "/proc/self/cgroup")).value_or(""));
  const CgroupMounts mounts =
      ParseCgroupMounts(ReadFile(absl::StrCat(root, "/proc/self/mountinfo")).value_or(""));
  if (paths.v2.has_value() && mounts.v2.has_value()) {
    KVPOOL_RETURN_IF_ERROR(ApplyHierarchy(root, *mounts.v2, *paths.v2, kV2Files, memory));
  }
  if (paths.v1.has_value() && mounts.v1.has_value()) {
    KVPOOL_RETURN_IF_ERROR(ApplyHierarchy(root, *mounts.v1, *paths.v1, kV1Files, memory));
  }
  return memory;
}

}  // namespace kvpool
