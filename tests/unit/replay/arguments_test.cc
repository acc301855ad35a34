#include "client/cli/replay/arguments.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/cli/exit_code.h"
#include "core/ledger/policy_names.h"
#include "tests/support/catch.h"

namespace kvpool::replay {
namespace {

absl::StatusOr<ReplayArguments> Read(const std::vector<std::string>& words) {
  const auto line = cli::ParseCommandLine(words);
  REQUIRE(line.ok());
  return ReplayArguments::Read(line->options);
}

// What a usage error says.
std::string ErrorOf(const std::vector<std::string>& words) {
  const absl::Status status = Read(words).status();
  if (cli::ExitCodeFor(status) != cli::ExitCode::kUsage) return "no usage error";
  return std::string(status.message());
}

}  // namespace

TEST_CASE("A simulation has the capacities and policies that are named, in their order") {
  const auto read = Read({"--simulate", "--capacity=5,infinite,0", "--policy=learned,leaf_lru",
                          "--block_tokens=16", "--done=50"});
  REQUIRE(read.ok());
  CHECK(read->simulation->capacities == std::vector<std::optional<uint32_t>>{5, std::nullopt, 0});
  CHECK(read->simulation->policies ==
        std::vector{EvictionPolicyName::kLearned, EvictionPolicyName::kLeafLru});
  CHECK(read->format.block_tokens == 16);
  CHECK(read->format.timestamp_unit == std::chrono::seconds(1));
  CHECK(read->done_percent == 50);
}

TEST_CASE("A simulation has both policies, Mooncake's format and no hints unless told otherwise") {
  const auto read = Read({"--simulate", "--capacity=1"});
  REQUIRE(read.ok());
  CHECK(read->simulation->policies ==
        std::vector{EvictionPolicyName::kLeafLru, EvictionPolicyName::kLearned});
  CHECK(read->format.block_tokens == 512);
  CHECK(read->done_percent == 0);
}

TEST_CASE("Options of a replay that cannot be are usage errors that name them") {
  CHECK(ErrorOf({"--simulate"}) == "--simulate needs --capacity");
  CHECK(ErrorOf({"--simulate", "--capacity=1,"}) ==
        "--capacity: \"\" is no count of blocks from 0 to 1073741824");
  CHECK(ErrorOf({"--simulate", "--capacity=1e3"}).find("--capacity: \"1e3\" is no count") == 0);
  CHECK(ErrorOf({"--simulate", "--capacity=-1"}).find("--capacity: \"-1\" is no count") == 0);
  CHECK(ErrorOf({"--simulate", "--capacity=1073741825"}).find("--capacity: \"1073741825\"") == 0);
  CHECK(ErrorOf({"--simulate", "--capacity=1", "--policy=lru"}) ==
        "--policy: \"lru\" is not learned or leaf_lru");
  CHECK(ErrorOf({"--simulate", "--capacity=1", "--policy=learned,learned"}) ==
        "--policy names learned twice");
  CHECK(ErrorOf({"--simulate", "--capacity=1", "--block_tokens=64"}) ==
        "--block_tokens is 64, not 512 or 16");
  CHECK(ErrorOf({"--simulate", "--capacity=1", "--done=101"}) == "--done is 101, not 0-100");
  CHECK(ErrorOf({"--simulate", "--capacity=1", "--csv", "--json"}) ==
        "--csv and --json exclude each other");
}

TEST_CASE("A replay against a daemon names its pool, and has one worker and full speed by itself") {
  const auto least = Read({"--pool=p"});
  REQUIRE(least.ok());
  CHECK_FALSE(least->simulation.has_value());
  CHECK(least->drive->pool == "p");
  CHECK(least->drive->workers == 1);
  CHECK(least->drive->speed == 0);
  CHECK_FALSE(least->drive->capacity.has_value());
  const auto most = Read({"--pool=p", "--workers=256", "--speed=0.5", "--capacity=7", "--done=9"});
  REQUIRE(most.ok());
  CHECK(most->drive->workers == 256);
  CHECK(most->drive->speed == 0.5);
  CHECK(most->drive->capacity == 7U);
  CHECK(most->done_percent == 9);
}

TEST_CASE("Options of one kind of replay are usage errors in the other") {
  CHECK(ErrorOf({}) == "replay needs --pool, or --simulate");
  CHECK(ErrorOf({"--pool="}) == "replay needs --pool, or --simulate");
  CHECK(ErrorOf({"--pool=p", "--csv"}) == "--csv needs --simulate");
  CHECK(ErrorOf({"--pool=p", "--policy=learned"}) == "--policy needs --simulate");
  CHECK(ErrorOf({"--pool=p", "--workers=0"}) == "--workers is 0, not 1 to 256");
  CHECK(ErrorOf({"--pool=p", "--workers=257"}) == "--workers is 257, not 1 to 256");
  CHECK(ErrorOf({"--pool=p", "--speed=-1"}) == "--speed is -1, not 0 to 1e+06");
  CHECK(ErrorOf({"--pool=p", "--speed=nan"}) == "--speed is nan, not 0 to 1e+06");
  CHECK(ErrorOf({"--pool=p", "--capacity=1,2"}).find("--capacity: \"1,2\" is no count") == 0);
  for (const std::string option :
       {"--pool=p", "--workers=1", "--speed=1", "--socket=unix:/s", "--timeout=1s"}) {
    CHECK(ErrorOf({"--simulate", "--capacity=1", option}) ==
          absl::StrCat("--simulate uses no daemon: it takes no ",
                       option.substr(0, option.find('='))));
  }
}

TEST_CASE("A policy has the name that the API gives it") {
  CHECK(PolicyName(EvictionPolicyName::kLearned) == "learned");
  CHECK(PolicyName(EvictionPolicyName::kLeafLru) == "leaf_lru");
}

}  // namespace kvpool::replay
