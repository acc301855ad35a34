#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace kvpool::test {
namespace {

constexpr int kTsanExitCode = 66;

struct Run {
  int exit_code = 0;
  std::string report;
};

// The handlers run in a process of their own, with the TSAN_OPTIONS of this one.
Run RunTwoHandlers(bool locked) {
  const TempDir directory;
  ChildProcess child({.arguments = {KVPOOL_TEST_TWO_HANDLERS},
                      .environment = {locked ? "KVPOOL_TEST_LOCKED=1" : "KVPOOL_TEST_LOCKED=0"},
                      .stderr_path = directory.File("report"),
                      .uid = std::nullopt});
  const std::string output = child.ReadAll();
  const int exit_code = child.Wait();
  std::stringstream report;
  report << std::ifstream(directory.File("report")).rdbuf();
  return {.exit_code = exit_code, .report = report.str() + output};
}

TEST_CASE("ThreadSanitizer reports a race below two gRPC handlers") {
  const Run run = RunTwoHandlers(/*locked=*/false);
  CAPTURE(run.report);
  CHECK(run.exit_code == kTsanExitCode);
  CHECK(run.report.find("ThreadSanitizer: data race") != std::string::npos);
  CHECK(run.report.find("kvpool_test_meeting") != std::string::npos);
}

TEST_CASE("ThreadSanitizer reports nothing where the same handlers use a lock") {
  const Run run = RunTwoHandlers(/*locked=*/true);
  CAPTURE(run.report);
  CHECK(run.exit_code == 0);
  CHECK(run.report.find("ThreadSanitizer") == std::string::npos);
}

}  // namespace
}  // namespace kvpool::test
