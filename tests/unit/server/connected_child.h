#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "server/unique_fd.h"
#include "tests/support/catch.h"
#include "tests/unit/server/socket_client.h"

namespace kvpool::server {

// A child that connects to `path`, runs `then` and waits to be killed. The caller waits for it.
inline pid_t ConnectChild(
    const std::string& path, const std::function<void()>& then = [] {}) {
  const pid_t child = fork();
  if (child == 0) {
    // A test that fails leaves nobody behind, who would hold its output open.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const UniqueFd fd = ConnectTo(path, SOCK_STREAM);
    then();
    while (true) pause();
  }
  return child;
}

inline void Kill(pid_t child) {
  kill(child, SIGKILL);
  REQUIRE(waitpid(child, nullptr, 0) == child);
}

}  // namespace kvpool::server
