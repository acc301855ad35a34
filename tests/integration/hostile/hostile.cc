#include "tests/integration/hostile/hostile.h"

#include "absl/strings/match.h"

#include "tests/support/catch.h"

namespace kvpool::test {

Hostile::Hostile(const std::string& socket)
    : process_({.arguments = {KVPOOL_TEST_HOSTILE, socket},
                .environment = {},
                .stderr_path = "",
                .uid = kUid}) {}

std::string Hostile::Ask(const std::string& command) {
  Tell(command);
  return process_.ReadLine().value_or("(gone)");
}

std::string Hostile::AskFor(const std::string& command) {
  const std::string answer = Ask(command);
  CAPTURE(command, answer);
  REQUIRE(absl::StartsWith(answer, "ok "));
  return answer.substr(3);
}

}  // namespace kvpool::test
