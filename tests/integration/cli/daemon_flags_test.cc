// kvpoold's own flags: what each takes, and what a wrong command line is told.
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/daemon_process.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_dir.h"

namespace kvpool::test {
namespace {

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

// Runs a program. Its end must come by itself.
Outcome RunToEnd(std::vector<std::string> arguments) {
  const TempDir directory;
  ChildProcess process({.arguments = std::move(arguments),
                        .environment = {},
                        .stderr_path = directory.File("stderr"),
                        .uid = std::nullopt});
  CHECK(Eventually([&] { return !process.IsRunning(); }));
  process.Signal(SIGKILL);
  Outcome outcome;
  outcome.out = process.ReadAll();
  outcome.code = process.Wait();
  std::stringstream text;
  text << std::ifstream(directory.File("stderr")).rdbuf();
  outcome.err = text.str();
  return outcome;
}

// Runs kvpoold, which would listen in a directory of its own, with one flag more.
Outcome RunWith(const std::string& flag) {
  const TempDir directory;
  std::ofstream(directory.File("config.json"))
      << R"({"listeners": [{"address": "unix:)" << directory.File("kvpool.sock")
      << R"(", "role": "ROLE_OPERATOR"}]})";
  CAPTURE(flag);
  return RunToEnd({KVPOOL_KVPOOLD, "--config=" + directory.File("config.json"), flag});
}

TEST_CASE("kvpoold refuses a wrong command line, and says what is wrong with it") {
  const auto [flag, said] = GENERATE(values<std::pair<std::string, std::string>>({
      {"--clock_rate=0.5", "--clock_rate=0.5 is not between 1 and 100000"},
      {"--clock_rate=nan", "--clock_rate=nan is not between 1 and 100000"},
      {"stray", "unexpected argument 'stray'"},
      {"--no_such_flag", "no_such_flag"},
      {"--log_level=loud", "'loud', not one of trace, debug, info, warning, error, critical"},
      {"--log_level=INFO", "'INFO', not one of"},
      {"--keepalive=soon", "soon"},
      {"--keepalive=99ms", "--keepalive=99ms is not between 100ms and 1h"},
      {"--keepalive=60m1ns", "is not between 100ms and 1h"},
      {"--keepalive=inf", "--keepalive=inf is not between"},
      {"--memory_wait=-1ns", "--memory_wait=-1ns is not between 0 and 24h"},
      {"--memory_wait=24h1ns", "is not between 0 and 24h"},
      {"--reclaim_delay=-1ns", "--reclaim_delay=-1ns is not between 0 and 1h"},
      {"--reclaim_delay=1h1ns", "is not between 0 and 1h"},
      {"--drain_deadline=-1ns", "--drain_deadline=-1ns is not between 0 and 24h"},
      {"--drain_deadline=24h1ns", "is not between 0 and 24h"},
      {"--config=/nowhere/config.json", "/nowhere/config.json"},
  }));
  const Outcome outcome = RunWith(flag);
  INFO(outcome.err);
  CHECK(outcome.code == 1);
  CHECK(outcome.out.empty());
  CHECK(absl::StrContains(outcome.err, said));
}

TEST_CASE("kvpoold refuses a config that is no file at once, and says what it is") {
  const TempDir directory;
  const std::string fifo = directory.File("fifo");
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {fifo, "is a FIFO or a pipe"},
      {directory.File(""), "is a directory"},
      {"/dev/zero", "is a device"}};
  for (const auto& [path, said] : cases) {
    const Outcome outcome = RunWith("--config=" + path);
    INFO(outcome.err);
    CHECK(outcome.code == 1);
    CHECK(absl::StrContains(outcome.err, path + ": " + said));
  }
}

TEST_CASE("kvpoold refuses a config that is too long for one, and says how long it may be") {
  const TempDir directory;
  const std::string path = directory.File("config.json");
  std::ofstream(path) << "{}";
  // A terabyte of zeros that takes no room.
  std::filesystem::resize_file(path, uint64_t{1} << 40);
  const Outcome outcome = RunWith("--config=" + path);
  INFO(outcome.err);
  CHECK(outcome.code == 1);
  CHECK(absl::StrContains(outcome.err, path + ": more than 1048576 bytes"));
}

TEST_CASE("kvpoold refuses to start with fewer descriptors than it needs, and says how many") {
  const int hard_limit = GENERATE(12, 64, 128);
  const TempDir directory;
  std::ofstream(directory.File("config.json"))
      << R"({"listeners": [{"address": "unix:)" << directory.File("kvpool.sock")
      << R"(", "role": "ROLE_OPERATOR"}]})";
  const Outcome outcome =
      RunToEnd({"/bin/sh", "-c", absl::StrCat("ulimit -n ", hard_limit, " && exec \"$0\" \"$@\""),
                KVPOOL_KVPOOLD, "--config=" + directory.File("config.json")});
  INFO(outcome.err);
  CHECK(outcome.code == 1);
  CHECK(absl::StrContains(
      outcome.err, absl::StrCat("the hard limit of open files (ulimit -Hn, LimitNOFILE=) is ",
                                hard_limit, "; the daemon needs at least 152")));
  CHECK_FALSE(std::filesystem::exists(directory.File("kvpool.sock")));
}

TEST_CASE("kvpoold says its version, and starts nothing") {
  const Outcome outcome = RunWith("--version");
  CHECK(outcome.code == 0);
  CHECK(outcome.out == "kvpoold " KVPOOL_VERSION "\n");
  CHECK(outcome.err.empty());
}

TEST_CASE("kvpoold serves with each of its times at an edge") {
  const auto flags = GENERATE(values<std::vector<std::string>>(
      {{"--keepalive=100ms", "--memory_wait=0", "--reclaim_delay=0", "--drain_deadline=0"},
       {"--keepalive=1h", "--memory_wait=24h", "--reclaim_delay=1h", "--drain_deadline=24h"}}));
  DaemonProcess daemon({.flags = flags});
  CHECK(daemon.Stop() == 0);
}

TEST_CASE("kvpoold logs what is as grave as its level, and nothing else") {
  // That a connection was opened is of level debug, that the daemon stopped of level info.
  const auto [level, logs_info, logs_debug] =
      GENERATE(table<std::string, bool, bool>({{"trace", true, true},
                                               {"debug", true, true},
                                               {"info", true, false},
                                               {"warning", false, false},
                                               {"error", false, false},
                                               {"critical", false, false},
                                               {"off", false, false}}));
  CAPTURE(level);
  DaemonProcess daemon({.flags = {"--log_level=" + level}});
  CHECK(daemon.Stop() == 0);
  const std::string log = daemon.Log();
  CAPTURE(log);
  CHECK(absl::StrContains(log, " level=info event=stopped") == logs_info);
  CHECK(absl::StrContains(log, " level=debug event=connection_opened") == logs_debug);
  CHECK(log.empty() == !logs_info);
}

TEST_CASE("kvpoold --help shows every flag that it has") {
  const Outcome outcome = RunWith("--help");
  for (const std::string flag : {"--config", "--drain_deadline", "--keepalive", "--log_level",
                                 "--memory_wait", "--reclaim_delay", "--clock_rate"}) {
    CAPTURE(flag, outcome.out);
    CHECK(absl::StrContains(outcome.out, flag));
  }
  CHECK(absl::StrContains(outcome.out, "Flags from kvpoold:"));
  CHECK_FALSE(absl::StrContains(outcome.out, "main.cc"));
}

}  // namespace
}  // namespace kvpool::test
