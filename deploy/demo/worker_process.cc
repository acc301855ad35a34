#include "deploy/demo/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "core/check.h"

namespace kvpool::demo {

WorkerProcess::WorkerProcess(const std::vector<std::string>& arguments) {
  std::array<int, 2> out{};
  // Closed on exec, or the next worker would keep this one's pipe open.
  KVPOOL_CHECK(pipe2(out.data(), O_CLOEXEC) == 0);
  std::vector<std::string> copies = arguments;
  copies.insert(copies.begin(), "kvpool_demo");
  std::vector<char*> pointers;
  for (std::string& text : copies) pointers.push_back(text.data());
  pointers.push_back(nullptr);

  pid_ = fork();
  KVPOOL_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out[1], STDOUT_FILENO);
    execv("/proc/self/exe", pointers.data());
    _exit(127);
  }
  close(out[1]);
  stdout_ = fdopen(out[0], "r");
}

WorkerProcess::~WorkerProcess() {
  if (!is_waited_for_) Kill();
  std::fclose(stdout_);
}

std::optional<std::string> WorkerProcess::ReadLine() {
  char* line = nullptr;
  size_t capacity = 0;
  const ssize_t length = getline(&line, &capacity, stdout_);
  std::optional<std::string> text;
  if (length > 0) text.emplace(line, static_cast<size_t>(length - 1));
  std::free(line);
  return text;
}

std::optional<std::string> WorkerProcess::ReadFigure(const std::string& name) {
  while (auto line = ReadLine()) {
    if (line->starts_with(name + " ")) return line->substr(name.size() + 1);
  }
  return std::nullopt;
}

void WorkerProcess::Kill() {
  kill(pid_, SIGKILL);
  Succeeded();
}

bool WorkerProcess::Succeeded() {
  int status = 0;
  if (!is_waited_for_) KVPOOL_CHECK(waitpid(pid_, &status, 0) == pid_);
  is_waited_for_ = true;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace kvpool::demo
