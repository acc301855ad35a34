#include "client/cli/doctor/process_checks.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "client/cli/bounded_file.h"
#include "client/cli/error_text.h"
#include "client/cli/text.h"
#include "client/owned_fd.h"

namespace kvpool::cli {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
// A connection takes 2, and a region one: enough for some hundred workers.
constexpr uint64_t kEnoughFiles = 4096;
// Of all memory: with less, the kernel is about to kill somebody.
constexpr uint64_t kMinFreeShare = 20;
// More than any file of /proc that is read here has.
constexpr size_t kMaxProcBytes = size_t{1} << 20;

// The rest of the line that begins with `name`.
std::optional<absl::string_view> LineOf(absl::string_view text, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::ConsumePrefix(&line, name)) return line;
  }
  return std::nullopt;
}

// The pid of who listens there, as this process sees it; 0 where it does not.
pid_t ListenerPid(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return 0;
  path.copy(address.sun_path, path.size());
  const client::OwnedFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (fd.get() < 0 ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return 0;
  }
  return peer.pid;
}

std::string LimitText(uint64_t limit) {
  return limit == kUnlimited ? "unlimited" : absl::StrCat(limit);
}

Finding CheckFiles(absl::string_view limits, absl::string_view whose) {
  constexpr absl::string_view kFiles = "open files";
  const std::optional<uint64_t> limit = ParseLimit(limits, "Max open files");
  if (!limit.has_value()) return {Verdict::kWarn, kFiles, "/proc does not tell the limit"};
  const std::string text = absl::StrCat(whose, " limit is ", LimitText(*limit));
  if (*limit >= kEnoughFiles) return {Verdict::kOk, kFiles, text};
  return {Verdict::kWarn, kFiles,
          absl::StrCat(text, ": connections and pools may be refused; raise it to ", kEnoughFiles,
                       " at least (ulimit -n, LimitNOFILE=)")};
}

Finding CheckLockedMemory(absl::string_view limits, absl::string_view whose) {
  constexpr absl::string_view kLocked = "locked memory";
  const std::optional<uint64_t> limit = ParseLimit(limits, "Max locked memory");
  if (!limit.has_value()) return {Verdict::kWarn, kLocked, "/proc does not tell the limit"};
  if (*limit == kUnlimited) return {Verdict::kOk, kLocked, absl::StrCat(whose, " is unlimited")};
  return {Verdict::kWarn, kLocked,
          absl::StrCat(whose, " limit is ", BytesText(*limit),
                       ": the driver may be refused the host memory through which bytes go to "
                       "GPUs; lift it (ulimit -l unlimited, LimitMEMLOCK=infinity)")};
}

}  // namespace

std::string ReadProc(const std::string& path) {
  return ReadBounded(path, "file", kMaxProcBytes).value_or("");
}

std::vector<pid_t> ParsePids(absl::string_view status) {
  std::vector<pid_t> pids;
  const std::optional<absl::string_view> line = LineOf(status, "NSpid:");
  if (!line.has_value()) return pids;
  for (const absl::string_view word :
       absl::StrSplit(*line, absl::ByAnyChar(" \t"), absl::SkipEmpty())) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(word, &pid) || pid <= 0) return {};
    pids.push_back(pid);
  }
  return pids;
}

std::optional<uint64_t> ParseLimit(absl::string_view limits, absl::string_view name) {
  const std::optional<absl::string_view> line = LineOf(limits, name);
  if (!line.has_value()) return std::nullopt;
  const std::vector<absl::string_view> words = absl::StrSplit(*line, ' ', absl::SkipEmpty());
  uint64_t limit = 0;
  if (words.empty()) return std::nullopt;
  if (words.front() == "unlimited") return kUnlimited;
  if (!absl::SimpleAtoi(words.front(), &limit)) return std::nullopt;
  return limit;
}

DaemonProcess FindDaemonProcess(const std::string& path) {
  const pid_t pid = ListenerPid(path);
  if (pid <= 0) return {};
  const std::string directory = absl::StrCat("/proc/", pid);
  return {.pids = ParsePids(ReadProc(directory + "/status")),
          .limits = ReadProc(directory + "/limits")};
}

Finding CheckPids(const DaemonProcess& daemon, pid_t own_pid) {
  constexpr absl::string_view kPids = "pids";
  constexpr absl::string_view kAdvice =
      "a process with the daemon's pid, in another container, cannot map GPU memory; start it "
      "under another pid, or let its container share the daemon's pid namespace";
  if (daemon.pids.empty()) {
    const std::string text =
        absl::StrCat("the daemon's cannot be seen from here, and this process is ", own_pid);
    if (own_pid >= kMinSafePid) return {Verdict::kOk, kPids, text};
    return {Verdict::kWarn, kPids, absl::StrCat(text, ": ", kAdvice)};
  }
  const pid_t daemon_pid = daemon.pids.back();
  const std::string text =
      absl::StrCat("the daemon calls itself ", daemon_pid, ", and this process is ", own_pid);
  // In one namespace they are never the same, but where this process is the daemon.
  if (daemon.pids.size() > 1 && daemon_pid == own_pid) {
    return {Verdict::kFail, kPids, absl::StrCat(text, " too: ", kAdvice)};
  }
  if (daemon_pid >= kMinSafePid) return {Verdict::kOk, kPids, text};
  return {Verdict::kWarn, kPids, absl::StrCat(text, ": ", kAdvice)};
}

std::vector<Finding> CheckLimits(const DaemonProcess& daemon, absl::string_view own_limits,
                                 bool has_gpus) {
  const bool is_daemons = !daemon.limits.empty();
  const absl::string_view limits = is_daemons ? absl::string_view(daemon.limits) : own_limits;
  const absl::string_view whose =
      is_daemons ? "the daemon's" : "the daemon's cannot be seen from here; this process's";
  std::vector<Finding> findings = {CheckFiles(limits, whose)};
  if (has_gpus) findings.push_back(CheckLockedMemory(limits, whose));
  return findings;
}

Finding CheckMemory(const absl::StatusOr<DeviceMemory>& memory, uint64_t node_bytes) {
  constexpr absl::string_view kMemory = "memory";
  if (!memory.ok()) return {Verdict::kWarn, kMemory, ErrorText(memory.status())};
  std::string text = absl::StrCat(BytesText(memory->free_bytes), " of ",
                                  BytesText(memory->total_bytes), " are available here");
  if (memory->total_bytes < node_bytes) {
    absl::StrAppend(&text, ", which is what this cgroup may have of the node's ",
                    BytesText(node_bytes));
  }
  if (memory->free_bytes >= memory->total_bytes / kMinFreeShare) {
    return {Verdict::kOk, kMemory, std::move(text)};
  }
  return {Verdict::kWarn, kMemory,
          absl::StrCat(text,
                       ": pools on the host find no room; end what uses it, or raise the "
                       "limit")};
}

}  // namespace kvpool::cli
