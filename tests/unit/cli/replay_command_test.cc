#include "client/cli/replay_command.h"

#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/cli/run_cli.h"

namespace kvpool::cli {
namespace {

constexpr absl::string_view kTrace =
    R"({"timestamp": 0, "input_length": 1024, "output_length": 9, "hash_ids": [1, 2]}
{"timestamp": 1000, "input_length": 1600, "output_length": 9, "hash_ids": [1, 2, 3, 4]}
)";

// A trace in a directory of its own.
class TraceFile {
 public:
  explicit TraceFile(absl::string_view text) { std::ofstream(path()) << text; }
  std::string path() const { return directory_.File("trace.jsonl"); }

 private:
  test::TempDir directory_;
};

}  // namespace

TEST_CASE("replay --simulate needs no daemon, and prints a table, CSV or JSON") {
  const TraceFile trace(kTrace);
  const auto run = [&trace](const std::string& form) {
    return test::RunCli({"replay", trace.path(), "--simulate", "--capacity=2", form});
  };
  const test::CliResult table = run("--nojson");
  CHECK(table.code == ExitCode::kOk);
  CHECK(table.errors.empty());
  CHECK(absl::StrContains(table.out, "2 requests, 5 blocks, 3 of them different"));
  CHECK(absl::StrContains(table.out, "capacity  leaf_lru  learned  optimum\n"));
  CHECK(absl::StrContains(table.out, "       2     40.00    40.00    40.00\n"));
  CHECK(absl::StrContains(run("--csv").out, "trace.jsonl,learned,2,40.00,2,5,1\n"));
  CHECK(absl::StrContains(run("--json").out, "\"hit_blocks\" : 2"));
}

TEST_CASE("replay of an empty trace finds nothing, and that is no error") {
  const TraceFile trace("");
  const auto result = test::RunCli({"replay", trace.path(), "--simulate", "--capacity=2"});
  CHECK(result.code == ExitCode::kOk);
  CHECK(absl::StrContains(result.out, "0 requests, 0 blocks"));
}

TEST_CASE("replay names the line of a trace that is wrong, and what is wrong with it") {
  const TraceFile trace(absl::StrCat(kTrace, R"({"timestamp": 2000, "input_length": -1})"));
  const auto result = test::RunCli({"replay", trace.path(), "--simulate", "--capacity=2"});
  CHECK(result.code == ExitCode::kRefused);
  CHECK(result.out.empty());
  CAPTURE(result.errors);
  CHECK(absl::StrContains(result.errors, ":3: input_length is -1, not a count"));
}

TEST_CASE("replay says that a trace is not there") {
  const auto result = test::RunCli({"replay", "/nowhere", "--simulate", "--capacity=2"});
  CHECK(result.code == ExitCode::kRefused);
  CHECK(absl::StrContains(result.errors, "cannot open /nowhere"));
}

}  // namespace kvpool::cli
