#include "tests/integration/support/worker.h"

#include <vector>

#include "core/check.h"

namespace kvpool::test {

namespace {

std::vector<std::string> Arguments(const std::string& socket, std::optional<int> said_pid,
                                   std::vector<std::string> arguments) {
  arguments.emplace_back(KVPOOL_TEST_WORKER);
  arguments.push_back(socket);
  if (said_pid.has_value()) arguments.push_back(std::to_string(*said_pid));
  return arguments;
}

}  // namespace

Worker::Worker(const std::string& socket, const std::string& pool, const std::string& name,
               std::optional<int> said_pid, const std::vector<std::string>& wrapper)
    : process_({.arguments = Arguments(socket, said_pid, wrapper),
                .environment = {},
                .stderr_path = "",
                .uid = std::nullopt}) {
  if (pool.empty()) return;
  const std::string answer = Ask("open " + pool + " " + name);
  if (answer != "ok") fprintf(stderr, "the worker did not open: %s\n", answer.c_str());
  KVPOOL_CHECK(answer == "ok");
}

std::string Worker::Ask(const std::string& command) {
  Tell(command);
  return Answer();
}

std::string Worker::Leave() {
  std::string answer = Ask("close");
  process_.CloseStdin();
  const int code = process_.Wait();
  return code == 0 ? answer : answer + ", then exit code " + std::to_string(code);
}

std::string Worker::Answer() { return process_.ReadLine().value_or("(gone)"); }

}  // namespace kvpool::test
