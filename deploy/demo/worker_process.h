#pragma once

#include <sys/types.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace kvpool::demo {

// This program run again as a worker, with its stdout on a pipe. Killed when destroyed.
class WorkerProcess {
 public:
  explicit WorkerProcess(const std::vector<std::string>& arguments);
  ~WorkerProcess();

  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Its next line; absent at the end of its output.
  std::optional<std::string> ReadLine();
  // The rest of the next line that begins with `name` and a space; absent where none comes.
  std::optional<std::string> ReadFigure(const std::string& name);
  // SIGKILL; then waits for it.
  void Kill();
  // Waits for its end: whether it exited with 0.
  bool Succeeded();

 private:
  pid_t pid_ = -1;
  bool is_waited_for_ = false;
  FILE* stdout_ = nullptr;
};

}  // namespace kvpool::demo
