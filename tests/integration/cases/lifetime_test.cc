// The daemon's own start and end.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "core/device/memory_limits.h"
#include "core/error.h"
#include "tests/integration/support/log_lines.h"
#include "tests/integration/support/node.h"
#include "tests/integration/support/worker.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"

namespace kvpool::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using SteadyClock = std::chrono::steady_clock;
using Health = grpc::health::v1::HealthCheckResponse;

std::string ListenerJson(const std::string& path) {
  return R"([{"address": "unix:)" + path + R"(", "role": "ROLE_WORKER"}])";
}

// A daemon that does not come up: its exit code is not 0, and what it said is returned.
std::string FailedStart(DaemonProcess& daemon) {
  CHECK(daemon.process().Wait() != 0);
  return daemon.Log();
}

TEST_CASE("SIGTERM ends the daemon as soon as its sessions are closed") {
  DaemonProcess daemon({.pools_json = OnePool(4), .flags = {"--drain_deadline=60s"}});
  RawClient client(daemon.Connect(daemon.worker_socket()));
  RawClient eyes(daemon.Connect(daemon.operator_socket()));
  REQUIRE(*eyes.Health() == Health::SERVING);
  const auto session = *RawSession::Open(client, {});
  REQUIRE(session->Attach().ok());
  REQUIRE(session->Alloc(4).ok());

  daemon.process().Signal(SIGTERM);
  const auto notice = session->stream().Next();
  REQUIRE(notice.has_value());
  CHECK(notice->kind() == v1::Notice::KIND_DRAINING);
  CHECK(notice->deadline().seconds() > 0);
  CHECK(notice->deadline().seconds() <= 60);
  CHECK(*eyes.Health() == Health::NOT_SERVING);
  CHECK(eyes.GetDaemon()->draining());
  CHECK(Said(RawSession::Open(client, {})) == "UNAVAILABLE DRAINING");
  CHECK(Said(session->AllocWaiting(1, seconds(30))) == "UNAVAILABLE DRAINING");
  CHECK(Said(session->Alloc(0)) == "OK");

  CHECK(session->Close().ok());
  CHECK(Said(session->stream().End()) == "OK");
  CHECK(daemon.process().Wait() == 0);
  CHECK_FALSE(std::filesystem::exists(daemon.directory().File("worker/kvpool.sock")));
  CHECK_FALSE(std::filesystem::exists(daemon.directory().File("worker/kvpool.sock.fd")));
}

TEST_CASE("At the drain's deadline sessions that are open are told, and the daemon ends cleanly") {
  DaemonProcess daemon({.pools_json = OnePool(4), .flags = {"--drain_deadline=500ms"}});
  RawClient client(daemon.Connect(daemon.worker_socket()));
  const auto session = *RawSession::Open(client, {});
  REQUIRE(session->Attach().ok());
  const auto begin = SteadyClock::now();
  daemon.process().Signal(SIGTERM);
  CHECK(Said(session->stream().End()) == "UNAVAILABLE DRAINING");
  CHECK(SteadyClock::now() - begin >= milliseconds(500));
  CHECK(daemon.process().Wait() == 0);
}

TEST_CASE("A call that waits when the daemon drains is not left waiting past its deadline") {
  DaemonProcess daemon({.pools_json = OnePool(4), .flags = {"--drain_deadline=500ms"}});
  RawClient client(daemon.Connect(daemon.worker_socket()));
  RawClient eyes(daemon.Connect(daemon.operator_socket()));
  const auto session = *RawSession::Open(client, {});
  REQUIRE(session->Alloc(4).ok());
  auto waiting =
      std::async(std::launch::async, [&] { return session->AllocWaiting(1, seconds(50)); });
  REQUIRE(Eventually([&] { return eyes.GetPool("p")->waiting_calls() == 1; }));
  CHECK(daemon.Stop() == 0);
  CHECK_FALSE(waiting.get().ok());
}

TEST_CASE("A second SIGTERM ends the daemon at once") {
  DaemonProcess daemon({.pools_json = OnePool(4), .flags = {"--drain_deadline=1h"}});
  RawClient client(daemon.Connect(daemon.worker_socket()));
  const auto session = *RawSession::Open(client, {});
  REQUIRE(session->Attach().ok());
  daemon.process().Signal(SIGTERM);
  REQUIRE(session->stream().Next()->kind() == v1::Notice::KIND_DRAINING);
  daemon.process().Signal(SIGTERM);
  CHECK(daemon.process().Wait() == 128 + SIGTERM);
}

// A pool that this machine could have, but not beside what it uses now.
TEST_CASE("A daemon short of memory waits as STARTING, not serving, and ends at once when told",
          "[host]") {
  const uint64_t total = ReadMemoryLimits().value().total_bytes;
  const std::string pools =
      R"([{"name": "p", "num_layers": 1, "num_kv_heads": 1, "head_dim": 16, "dtype": "fp8",
          "memory_bytes": ")" +
      absl::StrCat(total - 4'096) + R"("}])";
  DaemonProcess daemon(
      {.pools_json = pools, .flags = {"--memory_wait=1h"}, .wait_until_serving = false});
  RawClient client(daemon.Connect(daemon.worker_socket()));
  REQUIRE(Eventually([&] { return client.Health().ok(); }));
  CHECK(*client.Health() == Health::NOT_SERVING);
  CHECK(Said(RawSession::Open(client, {})) == "UNAVAILABLE STARTING");
  CHECK(daemon.Stop() == 0);
}

TEST_CASE("Of config pools that do not all fit none stays, and a smaller config starts in place",
          "[host]") {
  // Beside what this machine uses already there is no such room.
  const uint64_t all_but_some = ReadMemoryLimits().value().total_bytes - (uint64_t{64} << 20);
  const std::string large = R"({"name": "large", "num_layers": 1, "num_kv_heads": 1, "head_dim": 16,
                                "dtype": "fp8", "memory_bytes": ")" +
                            absl::StrCat(all_but_some) + R"("})";
  DaemonProcess daemon({.pools_json = "[" + PoolJson("small", 4) + ", " + large + "]",
                        .flags = {"--memory_wait=0s"},
                        .wait_until_serving = false});
  CHECK(daemon.process().Wait() == 1);
  const std::string log = daemon.Log();
  CHECK(CountLines(log, {" event=pool_created pool=small "}) == 1);
  // 16 KiB of 2^20.
  CHECK(absl::StrContains(log, " total_gib=0.00001526\n"));
  CHECK(CountLines(log, {" event=pool_create_failed pool=large "}) == 1);
  CHECK(CountLines(log, {"kvpoold: ", "pool large needs "}) == 1);
  for (const std::string path : {"worker/kvpool.sock", "operator/kvpool.sock"}) {
    CAPTURE(path);
    CHECK_FALSE(std::filesystem::exists(daemon.directory().File(path)));
    CHECK_FALSE(std::filesystem::exists(daemon.directory().File(path + ".fd")));
  }

  daemon.SetPools("[" + PoolJson("small", 4) + "]");
  daemon.Start();
  RawClient client(daemon.Connect(daemon.worker_socket()));
  REQUIRE(Eventually([&] { return client.Health().ok() && *client.Health() == Health::SERVING; }));
  v1::OpenSessionRequest request;
  request.set_pool("small");
  const auto session = Value(RawSession::Open(client, request));
  CHECK(Said(session->Alloc(4)) == "OK");
  CHECK(Said(session->Close()) == "OK");
  CHECK(daemon.Stop() == 0);
}

TEST_CASE("Config pools that can never fit end the start before any is made", "[host]") {
  // Two sides of a GiB a layer: two PiB in all.
  const std::string huge = R"({"name": "huge", "num_blocks": 1024, "num_layers": 1024,
                               "num_kv_heads": 1024, "head_dim": 65536})";
  DaemonProcess daemon(
      {.pools_json = "[" + PoolJson("p", 4) + ", " + huge + "]", .wait_until_serving = false});
  const std::string log = FailedStart(daemon);
  CHECK(absl::StrContains(log, "bytes of host memory"));
  CHECK(CountLines(log, {"event=pool_created"}) == 0);
  CHECK_FALSE(std::filesystem::exists(daemon.directory().File("worker/kvpool.sock")));
}

TEST_CASE("A second daemon on a socket is refused and leaves nothing, and the first serves on") {
  DaemonProcess first({.pools_json = OnePool(4)});
  const std::string shared = first.directory().File("worker/kvpool.sock");
  const TempDir directory;
  const std::string fresh = directory.File("fresh");
  DaemonProcess second({.listeners_json = absl::StrCat(R"([{"address": "unix:)", fresh,
                                                       R"(", "role": "ROLE_OPERATOR"},
                            {"address": "unix:)",
                                                       shared, R"(", "role": "ROLE_WORKER"}])"),
                        .wait_until_serving = false});
  CHECK(absl::StrContains(FailedStart(second), shared));
  CHECK(std::filesystem::is_empty(directory.path()));

  {
    Worker worker(first.worker_socket());
    CHECK(worker.Ask("map") == "ok");  // By the fd socket, which is the first's still.
    CHECK(absl::StartsWith(worker.Ask("alloc 4"), "ok "));
    CHECK(worker.Leave() == "ok");
  }
  first.process().Kill();
  first.Start();
  Worker worker(first.worker_socket());
  CHECK(worker.Ask("map") == "ok");
  CHECK(absl::StartsWith(worker.Ask("alloc 4"), "ok "));
  CHECK(worker.Leave() == "ok");
  CHECK(first.Stop() == 0);
}

TEST_CASE(
    "A daemon that was killed starts again in its place, and old sessions are unknown to it") {
  DaemonProcess daemon({.pools_json = OnePool(4)});
  std::string old_epoch;
  std::string old_session;
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    RawClient client(daemon.Connect(daemon.worker_socket()));
    if (!old_session.empty()) {
      CHECK(Said(client.CloseSession(old_session)) == "NOT_FOUND SESSION_UNKNOWN");
    }
    const auto session = *RawSession::Open(client, {});
    CHECK(session->opened().daemon_epoch() != old_epoch);
    CHECK(session->Alloc(4).ok());
    old_epoch = session->opened().daemon_epoch();
    old_session = session->id();
    daemon.process().Kill();
    CHECK(std::filesystem::exists(daemon.directory().File("worker/kvpool.sock")));
    daemon.Start();
  }
  CHECK(daemon.Stop() == 0);
}

TEST_CASE("A socket's path of the longest length works, and one byte more names path and limit",
          "[host]") {
  const TempDir directory;
  const std::string stem = directory.File("s");
  const std::string longest = stem + std::string(104 - stem.size(), 'x');
  DaemonProcess too_long({.pools_json = "[]",
                          .listeners_json = ListenerJson(longest + "x"),
                          .wait_until_serving = false});
  const std::string log = FailedStart(too_long);
  CHECK(absl::StrContains(log, longest + "x"));
  CHECK(absl::StrContains(log, "104"));

  DaemonProcess fits({.pools_json = OnePool(4),
                      .listeners_json = ListenerJson(longest),
                      .wait_until_serving = false});
  RawClient client(fits.Connect("unix:" + longest));
  CHECK(Eventually([&] { return client.Health().ok() && *client.Health() == Health::SERVING; }));
  CHECK(std::filesystem::exists(longest + ".fd"));
  CHECK(fits.Stop() == 0);
}

TEST_CASE("A socket's missing directories are made, and a directory that cannot be is named",
          "[host]") {
  const TempDir directory;
  DaemonProcess deep(
      {.listeners_json = ListenerJson(directory.File("a/b/c.sock")), .wait_until_serving = false});
  RawClient client(deep.Connect("unix:" + directory.File("a/b/c.sock")));
  CHECK(Eventually([&] { return client.Health().ok(); }));
  CHECK(deep.Stop() == 0);

  std::ofstream(directory.File("file")) << "in the way";
  DaemonProcess blocked(
      {.listeners_json = ListenerJson(directory.File("file/c.sock")), .wait_until_serving = false});
  CHECK(absl::StrContains(FailedStart(blocked), directory.File("file")));
  DaemonProcess no_socket(
      {.listeners_json = ListenerJson(directory.File("file")), .wait_until_serving = false});
  CHECK(absl::StrContains(FailedStart(no_socket), directory.File("file")));
  CHECK(std::filesystem::file_size(directory.File("file")) == 10);
}

}  // namespace
}  // namespace kvpool::test
