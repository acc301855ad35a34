#pragma once

#include <sys/types.h>

#include <string>

#include "tests/support/child_process.h"

namespace kvpool::test {

// A worker that means harm, in a process under a uid that owns nothing (which needs root to
// start): commands.h says what it can be told. Its tenant is "uid-12345". Killed when destroyed.
// Not thread-safe.
class Hostile {
 public:
  static constexpr uid_t kUid = 12'345;

  // On that socket, which its uid must be able to reach.
  explicit Hostile(const std::string& socket);

  // Gives it a command and waits for its answer; "(gone)" where it has ended instead.
  std::string Ask(const std::string& command);
  // Gives it a command that has no answer.
  void Tell(const std::string& command) { process_.WriteLine(command); }
  // The rest of an answer after "ok ". The answer must be ok.
  std::string AskFor(const std::string& command);

  ChildProcess& process() { return process_; }

 private:
  ChildProcess process_;
};

}  // namespace kvpool::test
