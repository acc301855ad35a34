#include "server/large_pid.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "core/check.h"
#include "core/status_macros.h"
#include "server/system_error.h"
#include "server/unique_fd.h"

namespace kvpool::server {
namespace {

// Containers start few processes before they serve.
constexpr pid_t kSmallPids = 1024;
constexpr pid_t kFirstLargePid = 4096;
// Two daemons or workers that both move do not meet: one in 20,000 does.
constexpr uint32_t kSpread = 20'000;
// Others take pids meanwhile; past pid_max they begin again at 300.
constexpr int64_t kPidMargin = 1024;
// The inode of the machine's first pid namespace: the kernel's PROC_PID_INIT_INO.
constexpr ino_t kFirstNamespace = 0xEFFFFFFC;

constexpr std::array<int, 6> kForwarded = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

bool MayUseCuda() {
#if KVPOOL_HAS_CUDA
  const char* library = std::getenv("KVPOOL_LIBCUDA");
  return (library != nullptr && *library != '\0') || access("/dev/nvidiactl", F_OK) == 0;
#else
  return false;
#endif
}

absl::StatusOr<bool> IsInFirstNamespace() {
  struct stat status {};
  if (stat("/proc/self/ns/pid", &status) != 0) return SystemError("/proc/self/ns/pid", errno);
  return status.st_ino == kFirstNamespace;
}

absl::StatusOr<int64_t> ReadPidMax() {
  constexpr char kPath[] = "/proc/sys/kernel/pid_max";
  const UniqueFd file(open(kPath, O_RDONLY | O_CLOEXEC));
  std::array<char, 32> text{};
  const ssize_t size = file.is_valid() ? read(file.get(), text.data(), text.size()) : -1;
  if (size < 0) return SystemError(kPath, errno);
  int64_t pid_max = 0;
  if (!absl::SimpleAtoi(absl::string_view(text.data(), static_cast<size_t>(size)), &pid_max)) {
    return absl::InternalError(absl::StrCat(kPath, " is no number"));
  }
  return pid_max;
}

void Reap(pid_t pid) {
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// The pid of a process that was made and has ended.
absl::StatusOr<pid_t> UsePid() {
  // It does nothing but end; fork() would copy the page tables for that.
  const pid_t pid = vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork)
  if (pid == 0) _exit(0);
  if (pid < 0) return SystemError("vfork", errno);
  Reap(pid);
  return pid;
}

int EndAtOnce(void* /*unused*/) { _exit(0); }

// Uses a pid up without a process, which on a busy machine would wait for its turn to run: asks for
// one with a pidfd that there is no place for, and the kernel finds that out when it has taken the
// pid. A kernel that knows no pidfds (before Linux 5.2) makes the process.
void UsePidQuickly() {
  alignas(16) static std::array<char, 16'384> stack;
  const pid_t pid = clone(EndAtOnce, stack.data() + stack.size(),
                          CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, /*arg=*/nullptr,
                          /*parent_tid=*/nullptr);
  if (pid > 0) Reap(pid);
}

// Uses pids up until the next one is `target` or more.
absl::Status UsePidsUp(pid_t target, int64_t pid_max) {
  pid_t last = 0;
  bool is_quick = true;
  for (int64_t used = 0; used < pid_max; ++used) {
    KVPOOL_ASSIGN_OR_RETURN(const pid_t pid, UsePid());
    if (pid >= target - 1) return absl::OkStatus();
    if (pid == last + 1) is_quick = false;  // It was in vain.
    last = pid;
    for (pid_t next = pid + 1; is_quick && next < target - 1; ++next, ++used) UsePidQuickly();
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("of ", pid_max, " pids none was ", target, " or more"));
}

sigset_t InitSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  for (const int signal : kForwarded) sigaddset(&signals, signal);
  return signals;
}

// Reaps all that has ended. Ends the process where `child` is among it.
void ReapAll(pid_t child) {
  int status = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (pid != child) continue;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
}

// The rest of the life of a process that has moved on to `child`. Requires that the signals are
// blocked.
[[noreturn]] void BeInit(pid_t child) {
  const sigset_t signals = InitSignals();
  while (true) {
    const int signal = sigwaitinfo(&signals, nullptr);
    if (signal == SIGCHLD) {
      ReapAll(child);
    } else if (signal > 0) {
      kill(child, signal);
    }
  }
}

}  // namespace

absl::StatusOr<pid_t> ChooseLargePid(int64_t pid_max, uint32_t random) {
  const int64_t spread = pid_max - kPidMargin - kFirstLargePid;
  if (spread <= 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("kernel.pid_max is ", pid_max, ", not above ", kFirstLargePid + kPidMargin));
  }
  return kFirstLargePid +
         static_cast<pid_t>(random % std::min<int64_t>(spread, int64_t{kSpread} + 1));
}

absl::StatusOr<std::optional<PidMove>> MoveToLargePid() {
  const pid_t old_pid = getpid();
  if (old_pid >= kSmallPids || !MayUseCuda()) return std::nullopt;
  KVPOOL_ASSIGN_OR_RETURN(const bool is_in_first, IsInFirstNamespace());
  if (is_in_first) return std::nullopt;

  uint32_t random = 0;
  KVPOOL_CHECK(getrandom(&random, sizeof(random), 0) == static_cast<ssize_t>(sizeof(random)));
  KVPOOL_ASSIGN_OR_RETURN(const int64_t pid_max, ReadPidMax());
  KVPOOL_ASSIGN_OR_RETURN(const pid_t target, ChooseLargePid(pid_max, random));

  KVPOOL_RETURN_IF_ERROR(UsePidsUp(target, pid_max));
  // Blocked, they stay pending, also for the first process of a namespace, which is sent no signal
  // that it neither blocks nor handles.
  const sigset_t blocked = InitSignals();
  sigset_t before;
  KVPOOL_CHECK(sigprocmask(SIG_BLOCK, &blocked, &before) == 0);
  const pid_t child = fork();
  if (child > 0) BeInit(child);
  const int error = errno;
  KVPOOL_CHECK(sigprocmask(SIG_SETMASK, &before, nullptr) == 0);
  if (child < 0) return SystemError("fork", error);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != old_pid) _exit(128 + SIGKILL);  // It died before that.
  return PidMove{.old_pid = old_pid, .new_pid = getpid()};
}

}  // namespace kvpool::server
