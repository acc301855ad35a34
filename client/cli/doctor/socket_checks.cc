#include "client/cli/doctor/socket_checks.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace kvpool::cli {
namespace {

constexpr absl::string_view kSocket = "socket";
constexpr absl::string_view kDirectory = "directory";

std::string ModeText(const struct stat& status) {
  return absl::StrFormat("mode %04o, uid %d, gid %d", status.st_mode & 07777U, status.st_uid,
                         status.st_gid);
}

// Both of a path that cannot be looked at.
Finding Unseen(absl::string_view check, const std::string& path, int error) {
  return {Verdict::kFail, check, absl::StrCat(path, ": ", std::strerror(error))};
}

Finding CheckFile(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    Finding finding = Unseen(kSocket, path, errno);
    absl::StrAppend(&finding.text,
                    "; start kvpoold, or say with --socket or KVPOOL_SOCKET where it listens");
    return finding;
  }
  if (!S_ISSOCK(status.st_mode)) return {Verdict::kFail, kSocket, path + " is no socket"};
  const std::string text = absl::StrCat(path, ", ", ModeText(status));
  if ((status.st_mode & S_IWOTH) == 0) return {Verdict::kOk, kSocket, text};
  return {Verdict::kWarn, kSocket,
          absl::StrCat(text,
                       ": whoever reaches its directory may call; if that is not meant, set "
                       "the listener's mode and group")};
}

// Whether others can replace what lies in `path`, which holds the socket itself, or a directory of
// those above it.
Finding CheckDirectory(const std::string& path, bool holds_socket) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return Unseen(kDirectory, path, errno);
  const std::string text = absl::StrCat(path, ", ", ModeText(status));
  if ((status.st_mode & S_IWOTH) == 0) return {Verdict::kOk, kDirectory, text};
  if ((status.st_mode & S_ISVTX) == 0) {
    return {Verdict::kFail, kDirectory,
            absl::StrCat(text, ": anybody can put another socket in its place; chmod o-w ", path)};
  }
  if (!holds_socket) return {Verdict::kOk, kDirectory, text};
  return {Verdict::kWarn, kDirectory,
          absl::StrCat(text,
                       ": anybody can make the socket before the daemon does; give it a "
                       "directory of its own")};
}

}  // namespace

std::vector<Finding> CheckSocket(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path absolute = std::filesystem::absolute(path, ignored);
  std::vector<Finding> findings = {CheckFile(path)};
  std::filesystem::path directory = absolute.parent_path();
  findings.push_back(CheckDirectory(directory.string(), /*holds_socket=*/true));
  // Of those above it only what is wrong, and once it cannot be looked at, nothing more.
  while (findings.back().verdict != Verdict::kFail && directory.has_relative_path()) {
    directory = directory.parent_path();
    Finding finding = CheckDirectory(directory.string(), /*holds_socket=*/false);
    if (finding.verdict != Verdict::kOk) findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace kvpool::cli
