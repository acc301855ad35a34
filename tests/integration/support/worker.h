#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/support/child_process.h"

namespace kvpool::test {

// A worker in a process of its own, on the client library: tests/integration/worker says which
// commands it takes. Killed when destroyed. Not thread-safe.
class Worker {
 public:
  // Of the daemon at that socket. With a session in the pool unless `pool` is empty. It says that
  // its pid is `said_pid`, where there is one. `wrapper` is a command that runs it.
  explicit Worker(const std::string& socket, const std::string& pool = "p",
                  const std::string& name = "worker", std::optional<int> said_pid = {},
                  const std::vector<std::string>& wrapper = {});

  // Gives it a command and waits for its answer; "(gone)" where it has ended instead.
  std::string Ask(const std::string& command);
  // Gives it a command whose answer Answer waits for.
  void Tell(const std::string& command) { process_.WriteLine(command); }
  std::string Answer();

  // Closes its session and ends: "ok" where both went well.
  std::string Leave();

  ChildProcess& process() { return process_; }
  pid_t pid() const { return process_.pid(); }
  int Kill() { return process_.Kill(); }

 private:
  ChildProcess process_;
};

}  // namespace kvpool::test
