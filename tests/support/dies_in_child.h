#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>

#include "absl/functional/function_ref.h"

namespace kvpool::test {

// Whether a forked child that runs `work` dies of `signal_number`.
inline bool DiesInChild(absl::FunctionRef<void()> work, int signal_number) {
  const pid_t child = fork();
  if (child == 0) {
    // The test framework's and the sanitizers' handlers would turn the signal into a report.
    std::signal(signal_number, SIG_DFL);
    const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
    setrlimit(RLIMIT_CORE, &no_core);
    work();
    _exit(0);
  }
  int state = 0;
  return child > 0 && waitpid(child, &state, 0) == child && WIFSIGNALED(state) &&
         WTERMSIG(state) == signal_number;
}

// Whether a forked child that reads the byte at `address` dies of SIGSEGV.
inline bool TouchingDiesInChild(const std::byte* address) {
  return DiesInChild([address] { (void)*static_cast<const volatile std::byte*>(address); },
                     SIGSEGV);
}

}  // namespace kvpool::test
