#include "tests/gpu/questions/namespaces.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace kvpool::questions {
namespace {

constexpr int kNamespaces = CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWNS;

// The exit code, 1 for a child that had none.
int WaitFor(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

[[noreturn]] void Exec(char* const* arguments) {
  // Its own descendant's end, since the signal is not inherited.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  execv("/proc/self/exe", arguments);
  _exit(127);
}

// In the namespaces' first process, which stays as long as the program does: without it they end.
[[noreturn]] void BeFirst(pid_t pid, char* const* arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // As a container has it. Where that is refused, /proc is the other namespaces'.
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0) {
    mount("proc", "/proc", "proc", 0, nullptr);
  }
  // Pids are given out one after the other.
  for (;;) {
    const pid_t child = fork();
    if (child < 0) _exit(1);
    if (child == 0) {
      if (getpid() == pid) Exec(arguments);
      _exit(0);
    }
    const int code = WaitFor(child);
    if (child >= pid) _exit(code);
  }
}

}  // namespace

std::string WhyNoNamespaces() {
  const pid_t child = fork();
  if (child < 0) return "no process can be made";
  if (child == 0) _exit(unshare(kNamespaces) == 0 ? 0 : errno);
  const int code = WaitFor(child);
  return code == 0 ? "" : std::string("namespaces are refused: ") + std::strerror(code);
}

int RunInNamespaces(pid_t pid, char* const* arguments) {
  if (unshare(kNamespaces) != 0) return 1;
  const pid_t first = fork();
  if (first < 0) return 1;
  if (first == 0) BeFirst(pid, arguments);
  return WaitFor(first);
}

}  // namespace kvpool::questions
