#include "client/cli/watch_command.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "kvpool/v1/inspect.pb.h"
#include "tests/support/catch.h"
#include "tests/unit/cli/run_cli.h"

namespace kvpool::cli {
namespace {

using test::CliFixture;
using test::CliResult;

v1::WatchPrefixesResponse Numbered(uint64_t sequence) {
  v1::WatchPrefixesResponse event;
  event.set_daemon_epoch("ab12");
  event.set_sequence(sequence);
  return event;
}

void AnswerResync(CliFixture& fixture) {
  v1::WatchPrefixesResponse resync = Numbered(9);
  resync.mutable_resync()->set_reason("too slow");
  fixture.daemon.Answer("WatchPrefixes", resync);
}

TEST_CASE("watch shows each event on a line, and names escaped") {
  CliFixture fixture;
  v1::WatchPrefixesResponse event = Numbered(0);
  event.mutable_cleared()->set_tenant("ac\nme");
  fixture.daemon.Answer("WatchPrefixes", event);
  v1::WatchPrefixesResponse::Stored& stored = *event.mutable_stored();
  stored.add_keys(std::string(32, '\x01'));
  stored.add_keys(std::string(32, '\xab'));
  for (const uint32_t id : {4U, 5U}) stored.mutable_blocks()->add_block_ids(id);
  stored.set_model_id("llama\x1b[0m");
  stored.set_adapter("lora");
  stored.set_tenant("acme");
  stored.add_tokens(7);
  fixture.daemon.Answer("WatchPrefixes", event);
  event = Numbered(6);
  event.mutable_snapshot_end();
  fixture.daemon.Answer("WatchPrefixes", event);
  event = Numbered(7);
  event.mutable_removed()->add_keys(std::string(32, '\x02'));
  fixture.daemon.Answer("WatchPrefixes", event);
  event = Numbered(8);
  event.mutable_cleared();
  fixture.daemon.Answer("WatchPrefixes", event);
  event.mutable_heartbeat();
  fixture.daemon.Answer("WatchPrefixes", event);
  const CliResult result = fixture.Run({"watch", "llama"});
  CHECK(result.code == ExitCode::kOk);
  std::string last;
  for (int i = 0; i < 32; ++i) last += "ab";
  std::string removed;
  for (int i = 0; i < 32; ++i) removed += "02";
  CHECK(result.out ==
        "- cleared tenant \"ac\\x0ame\"\n"
        "- stored blocks 4-5 tenant \"acme\" model \"llama\\x1b[0m\" adapter \"lora\" parent none "
        "last " +
            last +
            " tokens 1\n"
            "6 snapshot end, epoch ab12\n"
            "7 removed " +
            removed +
            "\n"
            "8 cleared\n"
            "8 heartbeat\n");
  CHECK(fixture.daemon.LastRequest("WatchPrefixes") == "pool: \"llama\"");
}

TEST_CASE("watch goes on after a number of a daemon, and prints JSON a line an event") {
  CliFixture fixture;
  v1::WatchPrefixesResponse event = Numbered(7);
  event.mutable_heartbeat();
  fixture.daemon.Answer("WatchPrefixes", event);
  const CliResult result =
      fixture.Run({"watch", "llama", "--after=5", "--epoch=ab12", "--with_tokens", "--json"});
  CHECK(result.out == "{\"daemonEpoch\":\"ab12\",\"sequence\":\"7\",\"heartbeat\":{}}\n");
  CHECK(fixture.daemon.LastRequest("WatchPrefixes") ==
        "pool: \"llama\" daemon_epoch: \"ab12\" after_sequence: 5 with_tokens: true");
  CHECK(fixture.Run({"watch", "llama", "--after=5"}).code == ExitCode::kUsage);
  CHECK(fixture.Run({"watch", "llama", "--epoch=ab12"}).code == ExitCode::kUsage);
}

TEST_CASE("watch that has lost changes says so and exits with 1") {
  CliFixture fixture;
  AnswerResync(fixture);
  const CliResult result = fixture.Run({"watch", "llama"});
  CHECK(result.code == ExitCode::kRefused);
  CHECK(result.out == "9 resync: too slow\n");
  CHECK(result.errors == "kvpoolctl: ABORTED: changes were lost: watch anew\n");
}

TEST_CASE("watch ends where nobody gets what it tells, before changes are lost") {
  const test::TempDir directory;
  test::CannedDaemon daemon(directory.File("kvpool.sock"));
  v1::WatchPrefixesResponse event = Numbered(7);
  event.mutable_heartbeat();
  daemon.Answer("WatchPrefixes", event);
  event.mutable_resync();
  daemon.Answer("WatchPrefixes", event);
  std::ofstream full("/dev/full");
  std::ostringstream errors;
  const Environment environment{.socket = "unix:" + directory.File("kvpool.sock")};
  CHECK(RunCli(std::vector<std::string>{"watch", "llama"}, environment, test::Now(), full,
               errors) == ExitCode::kOk);
  CHECK_FALSE(full.good());
  CHECK(errors.str().empty());
}

TEST_CASE("watch shows what came within its time, and misses a daemon that does not answer") {
  CliFixture fixture;
  fixture.daemon.Hang("WatchPrefixes");
  CHECK(fixture.Run({"watch", "llama", "--timeout=50ms"}).code == ExitCode::kUnreachable);
}

}  // namespace
}  // namespace kvpool::cli
