#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "client/cli/replay/board.h"
#include "client/owned_fd.h"

namespace kvpool::replay {

// WorkerProcesses are forked children of this process, which do their work at the same time and
// tell how it went on a board. They are ended, and waited for, with it, and by the kernel should
// this process die.
//
// Not thread-safe: a process that has threads must not fork.
class WorkerProcesses {
 public:
  // What a worker does. It may call `wait` any number of times, each worker as often: that tells
  // the parent that it is ready, and returns when the parent lets all go on.
  using Work = std::function<absl::Status(uint32_t worker, const std::function<void()>& wait)>;

  // `board` must outlive it. UNAVAILABLE where no process or pipe can be had.
  static absl::StatusOr<WorkerProcesses> Start(uint32_t count, Board& board, const Work& work);

  WorkerProcesses(WorkerProcesses&&) = default;
  WorkerProcesses& operator=(WorkerProcesses&&) = delete;
  ~WorkerProcesses();

  // Waits until each waits, or the first has failed, which it names, whatever the others do;
  // INTERNAL where one died.
  absl::Status WaitUntilReady();
  // Lets them go on. Requires that all wait.
  void GoOn();
  // Waits for their ends. The first failure, naming its worker; INTERNAL where one died.
  absl::Status Join();

 private:
  // Both ends stay open here, so that none is written to without a reader.
  struct Pipe {
    client::OwnedFd read_end{};
    client::OwnedFd write_end{};
  };
  struct Worker {
    pid_t pid = 0;            // 0: it was waited for.
    client::OwnedFd ready{};  // A byte comes each time that it waits, and the end when it ends.
    Pipe go{};                // A byte lets it go on.
  };

  explicit WorkerProcesses(Board& board) : board_(&board) {}

  // In the child: never returns.
  [[noreturn]] void Run(uint32_t worker, const Work& work, int ready, int go);
  absl::Status StatusOf(uint32_t worker);
  static absl::StatusOr<Pipe> MakePipe();

  Board* board_;
  std::vector<Worker> workers_;
};

}  // namespace kvpool::replay
