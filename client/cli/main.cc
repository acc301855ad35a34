#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"

#include "client/cli/cli.h"

namespace {

std::optional<std::string> Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  const kvpool::cli::Environment environment{.socket = Variable("KVPOOL_SOCKET"),
                                             .runtime_dir = Variable("XDG_RUNTIME_DIR"),
                                             .uid = geteuid()};
  auto code = kvpool::cli::RunCli(arguments, environment, absl::Now(), std::cout, std::cerr);
  std::cout.flush();
  if (!std::cout && code == kvpool::cli::ExitCode::kOk) {
    std::cerr << "kvpoolctl: the output could not be written\n";
    code = kvpool::cli::ExitCode::kRefused;
  }
  return static_cast<int>(code);
}
