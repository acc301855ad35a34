#include "client/cli/cli.h"

#include <algorithm>
#include <set>
#include <string>

#include "client/cli/command.h"
#include "client/cli/help.h"
#include "kvpool/v1/inspect.pb.h"
#include "tests/support/catch.h"
#include "tests/unit/cli/run_cli.h"

namespace kvpool::cli {
namespace {

using test::CliFixture;
using test::CliResult;

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("kvpoolctl --help lists every command, every shared option and the exit codes") {
  for (const char* option : {"--help", "-h"}) {
    const CliResult result = test::RunCli({option});
    CHECK(result.code == ExitCode::kOk);
    CHECK(result.errors.empty());
    for (const Command& command : Commands()) {
      CHECK(Has(result.out, "\n  " + std::string(command.name)));
      CHECK(Has(result.out, std::string(command.summary)));
    }
    for (const char* part : {"--socket", "--timeout", "--json", "--version", "KVPOOL_SOCKET",
                             "\n  0  ", "\n  1  ", "\n  2  ", "\n  3  "}) {
      CHECK(Has(result.out, part));
    }
  }
}

TEST_CASE("kvpoolctl --version tells the version, with or without a command, and needs no daemon") {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--version"}, {"status", "--version"}}) {
    const CliResult result = test::RunCli(arguments);
    CHECK(result.code == ExitCode::kOk);
    CHECK(result.out == "kvpoolctl " KVPOOL_VERSION "\n");
    CHECK(result.errors.empty());
  }
}

TEST_CASE("Every command has help of its own, which names its options and needs no daemon") {
  for (const Command& command : Commands()) {
    const std::string name(command.name);
    CAPTURE(name);
    const CliResult result = test::RunCli({name, "--help"});
    CHECK(result.code == ExitCode::kOk);
    CHECK(result.out.find("usage: kvpoolctl " + name) == 0);
    for (const absl::string_view option : command.options) {
      CHECK(Has(result.out, "\n  --" + std::string(option)));
    }
  }
}

TEST_CASE("kvpoolctl help, alone or with a command, is --help") {
  CHECK(test::RunCli({"help"}).out == OverviewHelp());
  for (const Command& command : Commands()) {
    const CliResult result = test::RunCli({"help", std::string(command.name)});
    CHECK(result.code == ExitCode::kOk);
    CHECK(result.out == CommandHelp(command));
  }
}

TEST_CASE("A usage names as needed only options that the command takes") {
  for (const Command& command : Commands()) {
    for (absl::string_view rest = command.needed_options; !rest.empty();) {
      const size_t start = rest.find("--");
      if (start == absl::string_view::npos) break;
      rest.remove_prefix(start + 2);
      const std::string name(rest.substr(0, rest.find_first_of("= )")));
      CAPTURE(name);
      CHECK(std::ranges::count(command.options, absl::string_view(name)) == 1);
    }
  }
}

TEST_CASE("No line of help is wider than 100 columns") {
  std::string text = OverviewHelp();
  for (const Command& command : Commands()) text += CommandHelp(command);
  size_t start = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', start)) {
    CAPTURE(text.substr(start, end - start));
    CHECK(end - start <= 100);
    start = end + 1;
  }
}

TEST_CASE("A command line that is wrong exits with 2 and says why, without a daemon") {
  const auto refused = [](const std::vector<std::string>& arguments, const std::string& part) {
    CAPTURE(arguments);
    const CliResult result = test::RunCli(arguments);
    CHECK(result.code == ExitCode::kUsage);
    CHECK(result.out.empty());
    CAPTURE(result.errors);
    CHECK(result.errors.find("kvpoolctl: ") == 0);
    CHECK(Has(result.errors, part));
  };
  refused({}, "no command");
  refused({"--json"}, "no command");
  refused({"nonsense"}, "there is no command \"nonsense\"");
  refused({"nonsense"}, "\"; `kvpoolctl --help` lists them\n");
  refused({"statsu"}, "there is no command \"statsu\"; did you mean status? `kvpoolctl --help`");
  refused({"create_pool"}, "did you mean create-pool?");
  refused({"hlep"}, "did you mean help?");
  refused({"help", "statsu"}, "did you mean status?");
  refused({"blocks", "p", "--counts=1"}, "did you mean --count?");
  refused({"terminate", "x", "--first=1"}, "`kvpoolctl terminate --help` lists what it takes");
  refused({"non\nsense"}, "there is no command \"non\\x0asense\"");
  refused({"status", "extra"}, "usage: kvpoolctl status [OPTIONS]");
  refused({"session"}, "usage: kvpoolctl session ID [OPTIONS]");
  refused({"block", "p"}, "usage: kvpoolctl block POOL ID [OPTIONS]");
  refused({"replay"},
          "usage: kvpoolctl replay TRACE (--pool=POOL | --simulate --capacity=N[,N...]) [OPTIONS]");
  refused({"plan", "x"}, "usage: kvpoolctl plan --spec=JSON|@FILE [OPTIONS]");
  refused({"create-pool", "x"}, "usage: kvpoolctl create-pool --spec=JSON|@FILE [OPTIONS]");
  refused({"prefix"}, "usage: kvpoolctl prefix lookup POOL --tokens=FILE|- --model=ID [OPTIONS]");
  refused({"replay", "/nowhere"}, "replay needs --pool, or --simulate");
  refused({"pools", "a", "b"}, "usage: kvpoolctl pools [POOL] [OPTIONS]");
  refused({"status", "--spec={}"}, "status takes no --spec");
  refused({"plan", "--release_claims"}, "plan takes no --release_claims");
  refused({"status", "--bogus"}, "there is no option --bogus");
  refused({"pools", "caf\xE9"}, "argument \"caf\\xe9\" is not UTF-8");
  refused({"create-pool", "--spec={\"name\": \"\xFF\"}"}, "is not UTF-8");
  refused({"status", "--socket=tcp:1"}, "socket \"tcp:1\"");
}

TEST_CASE("No command's options or name is another's by mistake") {
  std::set<std::string> names;
  for (const Command& command : Commands()) {
    CHECK(names.insert(std::string(command.name)).second);
    CHECK(command.min_arguments <= command.max_arguments);
    for (const absl::string_view option : command.options) CHECK(FindOption(option) != nullptr);
  }
}

TEST_CASE("Where no daemon is, every command that needs one exits with 3 and names the socket") {
  const test::TempDir directory;
  const std::string socket = "unix:" + directory.File("absent.sock");
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"status"},
                                             {"health"},
                                             {"pools"},
                                             {"pools", "p"},
                                             {"create-pool", "--spec={}"},
                                             {"delete-pool", "p"},
                                             {"reset", "p"},
                                             {"sessions"},
                                             {"session", "0123abcd"},
                                             {"terminate", "0123abcd"},
                                             {"block", "p", "1"},
                                             {"blocks", "p"},
                                             {"checksum", "p", "0-3"},
                                             {"checksum", "p", "0-3", "--layer=1"}}) {
    CAPTURE(arguments);
    const CliResult result = test::RunCli(arguments, {.socket = socket});
    CHECK(result.code == ExitCode::kUnreachable);
    CHECK(result.out.empty());
    CHECK(Has(result.errors, "no daemon answers at " + socket));
  }
}

TEST_CASE("A daemon that does not answer within --timeout is exit code 3") {
  CliFixture fixture;
  fixture.daemon.Hang("GetDaemon");
  const CliResult result = fixture.Run({"status", "--timeout=50ms"});
  CHECK(result.code == ExitCode::kUnreachable);
  CHECK(Has(result.errors, "DEADLINE_EXCEEDED: no daemon answers at unix:"));
}

TEST_CASE("What the daemon refuses is exit code 1, with its code, reason and message") {
  CliFixture fixture;
  fixture.daemon.Fail("DeletePool", absl::StatusCode::kFailedPrecondition, Reason::kInUse,
                      "pool \"p\" has 1 open session");
  const CliResult result = fixture.Run({"delete-pool", "p"});
  CHECK(result.code == ExitCode::kRefused);
  CHECK(result.out.empty());
  CHECK(result.errors == "kvpoolctl: FAILED_PRECONDITION, IN_USE: pool \"p\" has 1 open session\n");
}

TEST_CASE("A daemon that is draining was reached: exit code 1") {
  CliFixture fixture;
  fixture.daemon.Fail("GetDaemon", absl::StatusCode::kUnavailable, Reason::kDraining, "draining");
  const CliResult result = fixture.Run({"status"});
  CHECK(result.code == ExitCode::kRefused);
  CHECK(result.errors == "kvpoolctl: UNAVAILABLE, DRAINING: draining\n");
}

TEST_CASE("A daemon's message cannot reach the terminal") {
  CliFixture fixture;
  fixture.daemon.Fail("GetPool", absl::StatusCode::kNotFound, Reason::kUnspecified,
                      "no pool \x1b]0;title\x07\n");
  const CliResult result = fixture.Run({"pools", "p"});
  CHECK(result.errors == "kvpoolctl: NOT_FOUND: no pool \\x1b]0;title\\x07\\x0a\n");
}

TEST_CASE("Half an answer is not shown") {
  CliFixture fixture;
  v1::GetDaemonResponse daemon;
  daemon.set_version("1");
  fixture.daemon.Answer("GetDaemon", daemon);
  fixture.daemon.Fail("ListPools", absl::StatusCode::kInternal, Reason::kUnspecified, "broken");
  const CliResult result = fixture.Run({"status"});
  CHECK(result.code == ExitCode::kRefused);
  CHECK(result.out.empty());
}

}  // namespace
}  // namespace kvpool::cli
