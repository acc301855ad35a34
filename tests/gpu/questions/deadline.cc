#include "tests/gpu/questions/deadline.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <sstream>

#include "core/check.h"

namespace kvpool::questions {
namespace {

using Clock = std::chrono::steady_clock;

// In a group of its own, so that its children can be killed with it.
pid_t Start(std::vector<std::string> arguments, int output) {
  std::vector<char*> pointers;
  arguments.insert(arguments.begin(), "/proc/self/exe");
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const pid_t child = fork();
  KVPOOL_CHECK(child >= 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    dup2(output, STDOUT_FILENO);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  // Both do: whichever is first.
  setpgid(child, child);
  return child;
}

// False where `fd` is not readable in time.
bool AwaitReadable(int fd, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
    const int count = poll(&readable, 1, static_cast<int>(left.count()));
    if (count > 0) return true;
    KVPOOL_CHECK(count == 0 || errno == EINTR);
  }
}

// All that is said; false where it goes on after the deadline.
bool ReadUntil(int fd, Clock::time_point deadline, std::string& text) {
  while (AwaitReadable(fd, deadline)) {
    std::array<char, 4096> bytes{};
    const ssize_t count = read(fd, bytes.data(), bytes.size());
    if (count <= 0) return true;
    text.append(bytes.data(), static_cast<size_t>(count));
  }
  return false;
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

Outcome RunWithDeadline(const std::vector<std::string>& arguments,
                        std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  std::array<int, 2> output{};
  KVPOOL_CHECK(pipe2(output.data(), O_CLOEXEC) == 0);
  const pid_t child = Start(arguments, output[1]);
  close(output[1]);
  const int process = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  KVPOOL_CHECK(process >= 0);

  Outcome outcome;
  std::string text;
  outcome.is_late = !ReadUntil(output[0], deadline, text) || !AwaitReadable(process, deadline);
  // Before it is waited for, so that the group is still its own.
  kill(-child, SIGKILL);
  if (AwaitReadable(process, Clock::now() + std::chrono::seconds(2))) {
    int status = 0;
    KVPOOL_CHECK(waitpid(child, &status, 0) == child);
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  close(output[0]);
  close(process);
  outcome.lines = LinesOf(text);
  return outcome;
}

}  // namespace kvpool::questions
