#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "client/cli/cli.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/cli/canned_daemon.h"

namespace kvpool::test {

struct CliResult {
  cli::ExitCode code{};
  std::string out;
  std::string errors;
};

// 2026-01-31T12:00:00Z: when kvpoolctl runs in tests.
inline absl::Time Now() { return absl::FromUnixSeconds(1'769'860'800); }

inline CliResult RunCli(const std::vector<std::string>& arguments,
                        const cli::Environment& environment = {}) {
  std::ostringstream out;
  std::ostringstream errors;
  const cli::ExitCode code = cli::RunCli(arguments, environment, Now(), out, errors);
  return {.code = code, .out = out.str(), .errors = errors.str()};
}

// A canned daemon in a directory of its own, and kvpoolctl pointed at it.
class CliFixture {
 public:
  CliFixture() : daemon(directory_.File("kvpool.sock")) {}

  CliResult Run(const std::vector<std::string>& arguments) const {
    return RunCli(arguments, {.socket = "unix:" + directory_.File("kvpool.sock")});
  }

 private:
  TempDir directory_;

 public:
  CannedDaemon daemon;
};

}  // namespace kvpool::test
