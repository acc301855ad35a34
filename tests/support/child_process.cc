#include "tests/support/child_process.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "core/check.h"

namespace kvpool::test {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// In the child, between fork and exec: only async-signal-safe calls.
[[noreturn]] void Exec(const std::optional<uid_t>& uid, const char* stderr_path, int in, int out,
                       char* const* arguments, char* const* environment) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  if (stderr_path != nullptr) {
    const int file = open(stderr_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    dup2(file, STDERR_FILENO);
  }
  if (uid.has_value() && (setgroups(0, nullptr) != 0 || setgid(*uid) != 0 || setuid(*uid) != 0)) {
    _exit(127);
  }
  execve(arguments[0], arguments, environment);
  _exit(127);
}

}  // namespace

ChildProcess::ChildProcess(const Options& options) {
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  KVPOOL_CHECK(pipe2(in.data(), O_CLOEXEC) == 0);
  KVPOOL_CHECK(pipe2(out.data(), O_CLOEXEC) == 0);
  std::vector<std::string> arguments = options.arguments;
  std::vector<std::string> environment = options.environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  const std::vector<char*> argument_pointers = Pointers(arguments);
  const std::vector<char*> environment_pointers = Pointers(environment);
  const char* stderr_path = options.stderr_path.empty() ? nullptr : options.stderr_path.c_str();

  pid_ = fork();
  KVPOOL_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    Exec(options.uid, stderr_path, in[0], out[1], argument_pointers.data(),
         environment_pointers.data());
  }
  close(in[0]);
  close(out[1]);
  stdin_ = in[1];
  stdout_ = out[0];
}

ChildProcess::~ChildProcess() {
  if (!exit_code_.has_value()) Kill();
  CloseStdin();
  close(stdout_);
}

bool ChildProcess::IsRunning() {
  if (exit_code_.has_value()) return false;
  siginfo_t info{};
  KVPOOL_CHECK(waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0);
  return info.si_pid == 0;
}

void ChildProcess::Signal(int signal) { kill(pid_, signal); }

int ChildProcess::Wait() {
  if (exit_code_.has_value()) return *exit_code_;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0) KVPOOL_CHECK(errno == EINTR);
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return *exit_code_;
}

int ChildProcess::Kill() {
  Signal(SIGKILL);
  return Wait();
}

bool ChildProcess::FillBuffer() {
  std::array<char, 4096> bytes{};
  ssize_t count = 0;
  do {
    count = read(stdout_, bytes.data(), bytes.size());
  } while (count < 0 && errno == EINTR);
  if (count <= 0) return false;
  buffer_.append(bytes.data(), static_cast<size_t>(count));
  return true;
}

std::optional<std::string> ChildProcess::ReadLine() {
  size_t end = 0;
  while ((end = buffer_.find('\n')) == std::string::npos) {
    if (!FillBuffer()) return std::nullopt;
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

std::string ChildProcess::ReadAll() {
  while (FillBuffer()) {
  }
  return std::move(buffer_);
}

void ChildProcess::WriteLine(const std::string& line) {
  const std::string bytes = line + "\n";
  KVPOOL_CHECK(write(stdin_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
}

void ChildProcess::CloseStdin() {
  if (stdin_ >= 0) close(stdin_);
  stdin_ = -1;
}

}  // namespace kvpool::test
