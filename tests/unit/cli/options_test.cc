#include "client/cli/options.h"

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"

#include "client/cli/exit_code.h"
#include "tests/support/catch.h"

namespace kvpool::cli {
namespace {

CommandLine Parse(const std::vector<std::string>& arguments) {
  const auto line = ParseCommandLine(arguments);
  INFO(std::string(line.status().message()));
  REQUIRE(line.ok());
  return *line;
}

TEST_CASE("Options stand anywhere, with their value after '=' or apart") {
  const CommandLine line =
      Parse({"--json", "blocks", "--first=7", "llama", "--count", "9", "--timeout=1500ms"});
  CHECK(line.words == std::vector<std::string>{"blocks", "llama"});
  CHECK(line.option_names == std::vector<std::string>{"json", "first", "count", "timeout"});
  CHECK(line.options.json);
  CHECK(line.options.first == 7);
  CHECK(line.options.count == 9);
  CHECK(line.options.timeout == absl::Milliseconds(1500));
  CHECK_FALSE(line.options.socket.has_value());
  CHECK_FALSE(line.options.layer.has_value());
}

TEST_CASE("Every option sets its own field") {
  const CommandLine line = Parse(
      {"--socket=unix:/s", "--spec={}",         "--bytes=2KiB",     "--layer=0",   "--boundary=4",
       "--shard=1",        "--tag=a b",         "--release_claims", "--simulate",  "--capacity=1,2",
       "--policy=learned", "--block_tokens=16", "--done=9",         "--csv",       "--after=5",
       "--epoch=ab",       "--with_tokens",     "--tokens=-",       "--model=m",   "--adapter=l",
       "--salt=s",         "--pool=p",          "--workers=4",      "--speed=2.5", "-h",
       "--version"});
  CHECK(line.options.socket == "unix:/s");
  CHECK(line.options.spec == "{}");
  CHECK(line.options.bytes == 2048U);
  CHECK(line.options.layer == 0U);
  CHECK(line.options.boundary == 4U);
  CHECK(line.options.shard == 1);
  CHECK(line.options.tag == "a b");
  CHECK(line.options.release_claims);
  CHECK(line.options.simulate);
  CHECK(line.options.capacity == "1,2");
  CHECK(line.options.policy == "learned");
  CHECK(line.options.block_tokens == 16);
  CHECK(line.options.done == 9);
  CHECK(line.options.csv);
  CHECK(line.options.after == 5U);
  CHECK(line.options.epoch == "ab");
  CHECK(line.options.with_tokens);
  CHECK(line.options.tokens == "-");
  CHECK(line.options.model == "m");
  CHECK(line.options.adapter == "l");
  CHECK(line.options.salt == "s");
  CHECK(line.options.pool == "p");
  CHECK(line.options.workers == 4U);
  CHECK(line.options.speed == 2.5);
  CHECK(line.options.help);
  CHECK(line.options.version);
}

TEST_CASE("What is on or off can be said to be off, and the last word counts") {
  CHECK_FALSE(Parse({"--json", "--nojson"}).options.json);
  CHECK_FALSE(Parse({"--json=false"}).options.json);
  CHECK(Parse({"--nojson", "--json=true"}).options.json);
}

TEST_CASE("What follows '--' is words, and a single dash is one") {
  CHECK(Parse({"session", "--", "--json"}).words == std::vector<std::string>{"session", "--json"});
  CHECK(Parse({"session", "-"}).words == std::vector<std::string>{"session", "-"});
  CHECK(Parse({"--"}).words.empty());
}

TEST_CASE("A command line that cannot be read is a usage error that names the option") {
  const auto refused = [](const std::vector<std::string>& arguments, const std::string& start) {
    CAPTURE(arguments);
    const auto line = ParseCommandLine(arguments);
    REQUIRE_FALSE(line.ok());
    CHECK(ExitCodeFor(line.status()) == ExitCode::kUsage);
    const std::string message(line.status().message());
    CAPTURE(message);
    CHECK(message.find(start) == 0);
  };
  refused({"--bogus"}, "there is no option --bogus");
  refused({"--bogus\x1b"}, "there is no option --bogus\\x1b");
  refused({"--bogus"}, "there is no option --bogus; `kvpoolctl COMMAND --help` lists them");
  refused({"--sokcet=unix:/s"}, "there is no option --sokcet; did you mean --socket?");
  refused({"--release-claims"}, "there is no option --release-claims; did you mean --release_cl");
  refused({"-json"}, "\"-json\" is no option: they begin with --");
  refused({"-x"}, "\"-x\" is no option");
  refused({"--nosocket"}, "there is no option --nosocket");
  refused({"--nojson=true"}, "--nojson takes no value");
  refused({"--spec"}, "--spec needs a value");
  refused({"--first="}, "--first: \"\" ");
  refused({"--first=-1"}, "--first: \"-1\" ");
  refused({"--first=4294967296"}, "--first: \"4294967296\" ");
  refused({"--layer=x"}, "--layer: \"x\" ");
  refused({"--json=maybe"}, "--json: \"maybe\" ");
  refused({"--timeout=5"},
          "--timeout: \"5\" is no number with a unit, such as 500ms, 5s, 2m or 1h");
  refused({"--timeout=soon\n"}, "--timeout: \"soon\\x0a\" is no number with a unit");
  refused({"--timeout=0s"}, "--timeout: \"0s\" is not above 0");
  refused({"--timeout=-1s"}, "--timeout: \"-1s\" is not above 0");
  refused({"--timeout=25h"}, "--timeout: \"25h\" is not above 0 and at most 24h");
  refused({"--timeout=inf"}, "--timeout: \"inf\" is not above 0 and at most 24h");
  refused({"--bytes=1GB"}, "--bytes: \"1GB\" ");
}

TEST_CASE("The socket is the option's, else the environment's, else where the daemon puts it") {
  const Environment all{.socket = "unix:/env", .runtime_dir = "/run/user/7", .uid = 0};
  CHECK(ChooseSocket(Options{.socket = "unix:/option"}, all).value() == "unix:/option");
  CHECK(ChooseSocket({}, all).value() == "unix:/env");
  CHECK(ChooseSocket({}, {.runtime_dir = "/run/user/7", .uid = 0}).value() ==
        "unix:/run/kvpool/operator/kvpool.sock");
  CHECK(ChooseSocket({}, {.runtime_dir = "/run/user/7", .uid = 7}).value() ==
        "unix:/run/user/7/kvpool/operator/kvpool.sock");
  // Nobody has this uid.
  constexpr uid_t kUid = 3'999'999'999;
  CHECK(ChooseSocket({}, {.uid = kUid}).value() ==
        "unix:/tmp/kvpool-3999999999/operator/kvpool.sock");
  CHECK(ChooseSocket({}, {.runtime_dir = "", .uid = kUid}).value() ==
        "unix:/tmp/kvpool-3999999999/operator/kvpool.sock");
}

TEST_CASE("A default socket in a directory that somebody else has made is a usage error") {
  constexpr uid_t kUid = 3'999'999'998;
  const std::string squatted = "/tmp/kvpool-3999999998";
  std::filesystem::create_directory(squatted);
  const absl::Status refused = ChooseSocket({}, {.uid = kUid}).status();
  std::filesystem::remove(squatted);
  CHECK(ExitCodeFor(refused) == ExitCode::kUsage);
  CHECK(absl::StrContains(refused.message(), squatted));
}

TEST_CASE("A socket that cannot be is a usage error") {
  for (const auto& environment :
       {Environment{.socket = ""}, Environment{.socket = "/run/kvpool.sock"},
        Environment{.socket = "unix:"}, Environment{.socket = "localhost:50051"},
        Environment{.socket = "unix:/" + std::string(104, 'a')}}) {
    CAPTURE(environment.socket.value_or("none"));
    CHECK(ExitCodeFor(ChooseSocket({}, environment).status()) == ExitCode::kUsage);
  }
  CHECK(ChooseSocket({}, {.socket = "unix:/" + std::string(103, 'a')}).ok());
}

}  // namespace
}  // namespace kvpool::cli
