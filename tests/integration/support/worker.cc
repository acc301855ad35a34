#include "tests/integration/support/worker.h"

#include "core/check.h"

namespace kvpool::test {

Worker::Worker(const std::string& socket, const std::string& pool, const std::string& name)
    : process_({.arguments = {KVPOOL_TEST_WORKER, socket},
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
