#include "server/peer_identity.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "core/status_macros.h"
#include "server/system_error.h"

namespace kvpool::server {
namespace {

constexpr int kSoPeerPidfd = 77;              // SO_PEERPIDFD, which older headers lack.
constexpr uint64_t kPidfsMagic = 0x50494446;  // PID_FS_MAGIC, likewise.

// A pid cannot have come round to another process within this time: the kernel gives each number
// (32,768 or more) once before it gives one again, and makes some ten thousand processes a second.
constexpr uint64_t kMinPidReuseMs = 100;

bool IsReadable(int fd) {
  pollfd target{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&target, 1, 0) > 0;
}

// When the process `pid` started, in clock ticks since boot; absent where there is none to be seen.
std::optional<uint64_t> StartTime(pid_t pid) {
  const UniqueFd file(open(absl::StrCat("/proc/", pid, "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(1024, '\0');
  const ssize_t size = read(file.get(), text.data(), text.size());
  if (size <= 0) return std::nullopt;
  text.resize(static_cast<size_t>(size));
  // The second field is the program's name, in parentheses and with any bytes in it. The start
  // time is field 22: the 20th after it.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(text).substr(name_end + 1), ' ', absl::SkipEmpty());
  uint64_t ticks = 0;
  if (fields.size() < 20 || !absl::SimpleAtoi(fields[19], &ticks)) return std::nullopt;
  return ticks;
}

// Whether a process that started at `start_ticks` is too old to have got the pid of one that
// connected a moment ago.
bool IsOlderThanReuse(uint64_t start_ticks) {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const uint64_t now_ms =
      static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1'000'000;
  const uint64_t start_ms = start_ticks * 1000 / static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  return start_ms + kMinPidReuseMs <= now_ms;
}

// The pidfd that the kernel kept with the socket; none where it does not know the option.
absl::StatusOr<UniqueFd> PidfdOfSocket(int socket) {
  int pidfd = -1;
  socklen_t size = sizeof(pidfd);
  if (getsockopt(socket, SOL_SOCKET, kSoPeerPidfd, &pidfd, &size) == 0) return UniqueFd(pidfd);
  if (errno == ESRCH || errno == EMFILE || errno == ENFILE) {
    return SystemError("SO_PEERPIDFD", errno);
  }
  return UniqueFd();
}

// pidfd_open, where its process is that which connected: of the same user, and old enough.
absl::StatusOr<UniqueFd> PidfdOfPid(pid_t pid, uid_t uid) {
  if (pid == 0) return UniqueFd();
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.is_valid()) {
    if (errno == ESRCH || errno == EMFILE || errno == ENFILE) {
      return SystemError("pidfd_open", errno);
    }
    return UniqueFd();
  }
  // Looked at after the pidfd was opened: while it is not readable, what /proc shows is its.
  struct stat owner {};
  const bool is_same_user =
      stat(absl::StrCat("/proc/", pid).c_str(), &owner) == 0 && owner.st_uid == uid;
  const std::optional<uint64_t> start_time = StartTime(pid);
  if (IsReadable(pidfd.get())) return absl::NotFoundError("the process that connected is gone");
  if (!is_same_user || !start_time.has_value() || !IsOlderThanReuse(*start_time)) return UniqueFd();
  return pidfd;
}

std::optional<ProcessKey> KeyOf(const PeerIdentity& peer) {
  struct statfs file_system {};
  struct stat status {};
  if (peer.pidfd.is_valid() && fstatfs(peer.pidfd.get(), &file_system) == 0 &&
      static_cast<uint64_t>(file_system.f_type) == kPidfsMagic &&
      fstat(peer.pidfd.get(), &status) == 0) {
    return ProcessKey{.kind = ProcessKey::Kind::kPidfdInode, .number = status.st_ino};
  }
  if (peer.pid == 0) return std::nullopt;
  const std::optional<uint64_t> start_time = StartTime(peer.pid);
  if (!start_time.has_value()) return std::nullopt;
  // The pid may be another's by now, unless its process is surely the one that connected.
  const bool is_proved =
      peer.pidfd.is_valid() ? !IsReadable(peer.pidfd.get()) : IsOlderThanReuse(*start_time);
  if (!is_proved) return std::nullopt;
  return ProcessKey{.kind = ProcessKey::Kind::kStartTime,
                    .number = static_cast<uint64_t>(peer.pid),
                    .start_time = *start_time};
}

}  // namespace

absl::StatusOr<PeerIdentity> IdentifyPeer(int socket, PidfdSource best_source) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return SystemError("SO_PEERCRED", errno);
  }
  PeerIdentity peer{
      .pid = credentials.pid, .uid = credentials.uid, .pidfd = UniqueFd(), .key = std::nullopt};
  if (best_source == PidfdSource::kSocket) {
    KVPOOL_ASSIGN_OR_RETURN(peer.pidfd, PidfdOfSocket(socket));
  }
  if (!peer.pidfd.is_valid() && best_source != PidfdSource::kNone) {
    KVPOOL_ASSIGN_OR_RETURN(peer.pidfd, PidfdOfPid(peer.pid, peer.uid));
  }
  peer.key = KeyOf(peer);
  return peer;
}

}  // namespace kvpool::server
