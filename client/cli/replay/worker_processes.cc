#include "client/cli/replay/worker_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/status_macros.h"

namespace kvpool::replay {
namespace {

using client::OwnedFd;

absl::Status SystemError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// Reads a byte. False at the end.
bool ReadByte(int fd) {
  char byte = 0;
  ssize_t count = 0;
  do {
    count = read(fd, &byte, 1);
  } while (count < 0 && errno == EINTR);
  return count == 1;
}

// To a pipe with room, whose other end is open.
void WriteByte(int fd) {
  const char byte = 1;
  while (write(fd, &byte, 1) < 0 && errno == EINTR) {
  }
}

}  // namespace

absl::StatusOr<WorkerProcesses> WorkerProcesses::Start(uint32_t count, Board& board,
                                                       const Work& work) {
  WorkerProcesses processes(board);
  const pid_t parent = getpid();
  for (uint32_t worker = 0; worker < count; ++worker) {
    KVPOOL_ASSIGN_OR_RETURN(Pipe ready, MakePipe());
    KVPOOL_ASSIGN_OR_RETURN(Pipe go, MakePipe());
    const pid_t pid = fork();
    if (pid < 0) return SystemError(absl::StrCat("worker ", worker, " cannot be forked"));
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);  // It died before.
      processes.Run(worker, work, ready.write_end.get(), go.read_end.get());
    }
    processes.workers_.push_back(
        {.pid = pid, .ready = std::move(ready.read_end), .go = std::move(go)});
  }
  return processes;
}

WorkerProcesses::~WorkerProcesses() {
  for (const Worker& worker : workers_) {
    if (worker.pid == 0) continue;
    kill(worker.pid, SIGKILL);
    waitpid(worker.pid, nullptr, 0);
  }
}

void WorkerProcesses::Run(uint32_t worker, const Work& work, int ready, int go) {
  // Where the parent is gone, so is this process.
  const absl::Status status = work(worker, [ready, go] {
    WriteByte(ready);
    ReadByte(go);
  });
  if (!status.ok()) board_->Fail(worker, status);
  // What the parent has not written yet is the parent's to write.
  _exit(status.ok() ? 0 : 1);
}

absl::Status WorkerProcesses::WaitUntilReady() {
  std::vector<pollfd> waiting;
  for (const Worker& worker : workers_) {
    waiting.push_back({.fd = worker.ready.get(), .events = POLLIN, .revents = 0});
  }
  for (size_t left = waiting.size(); left > 0;) {
    if (poll(waiting.data(), waiting.size(), /*timeout=*/-1) < 0) {
      if (errno == EINTR) continue;
      return SystemError("the workers cannot be waited for");
    }
    for (uint32_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      if (!ReadByte(waiting[i].fd)) return StatusOf(i);
      waiting[i].fd = -1;  // poll passes over it.
      --left;
    }
  }
  return absl::OkStatus();
}

void WorkerProcesses::GoOn() {
  for (const Worker& worker : workers_) WriteByte(worker.go.write_end.get());
}

absl::Status WorkerProcesses::Join() {
  absl::Status first;
  for (uint32_t i = 0; i < workers_.size(); ++i) {
    absl::Status status = StatusOf(i);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

absl::StatusOr<WorkerProcesses::Pipe> WorkerProcesses::MakePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return SystemError("no pipe can be made");
  return Pipe{OwnedFd(ends[0]), OwnedFd(ends[1])};
}

absl::Status WorkerProcesses::StatusOf(uint32_t worker) {
  const pid_t pid = std::exchange(workers_[worker].pid, 0);
  int how = 0;
  while (waitpid(pid, &how, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(how) && WEXITSTATUS(how) == 0) return absl::OkStatus();
  const absl::Status status = board_->StatusOf(worker);
  if (!status.ok()) {
    return {status.code(), absl::StrCat("worker ", worker, ": ", status.message())};
  }
  return absl::InternalError(
      WIFSIGNALED(how) ? absl::StrCat("worker ", worker, " was ended by signal ", WTERMSIG(how))
                       : absl::StrCat("worker ", worker, " ended without a word"));
}

}  // namespace kvpool::replay
