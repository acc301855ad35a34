// A kernel that gives no pidfd: a process's end is known by a delay after its last connection.
#include <chrono>
#include <string>

#include "absl/strings/match.h"

#include "tests/integration/support/node.h"
#include "tests/integration/support/worker.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"

namespace kvpool::test {
namespace {

using std::chrono::steady_clock;

DaemonProcess::Options WithoutPidfds(const std::string& reclaim_delay) {
  return {.pools_json = OnePool(/*num_blocks=*/8),
          .flags = {"--reclaim_delay=" + reclaim_delay},
          .launcher = {KVPOOL_TEST_WITHOUT_PIDFDS}};
}

TEST_CASE("A daemon that gets no pidfds says so, of itself and of each session") {
  Node node(WithoutPidfds("1s"));
  Worker worker(node.daemon().worker_socket());
  const std::string id = worker.Ask("id").substr(3);
  CHECK(Value(node.eyes().GetSession(id)).reclaim_proof() == v1::RECLAIM_PROOF_DELAY);
  const auto daemon = Value(node.eyes().GetDaemon());
  CHECK(daemon.reclaim_proof() == v1::RECLAIM_PROOF_DELAY);
  REQUIRE(daemon.warnings_size() > 0);
  CHECK(absl::StrContains(daemon.warnings(0), "SO_PEERPIDFD"));
  CHECK(worker.Leave() == "ok");
  node.CheckAllIsBack();
}

TEST_CASE("Without pidfds a killed worker's blocks are free a delay after, a live one's are not") {
  constexpr auto kDelay = std::chrono::milliseconds(500);
  Node node(WithoutPidfds("500ms"));
  Worker living(node.daemon().worker_socket(), "p", "living");
  REQUIRE(absl::StartsWith(living.Ask("alloc 2"), "ok "));
  REQUIRE(node.eyes().TerminateSession(living.Ask("id").substr(3), false).ok());
  Worker killed(node.daemon().worker_socket(), "p", "killed");
  REQUIRE(absl::StartsWith(killed.Ask("alloc 3"), "ok "));
  CHECK(node.Pool().free_blocks() == 3);

  const auto time_killed = steady_clock::now();
  killed.Kill();
  REQUIRE(node.BecomeFree(6));
  CHECK(steady_clock::now() - time_killed >= kDelay);
  // Its session ended before the other's, but it is connected still, and may be writing.
  CHECK(node.Pool().quarantined_blocks() == 2);
  CHECK(living.process().IsRunning());

  const auto time_left = steady_clock::now();
  living.Kill();
  REQUIRE(node.BecomeFree(8));
  CHECK(steady_clock::now() - time_left >= kDelay);
  node.CheckAllIsBack();
}

TEST_CASE("Without pidfds a worker that closes its session has its blocks free at once") {
  Node node(WithoutPidfds("1h"));
  Worker worker(node.daemon().worker_socket());
  REQUIRE(absl::StartsWith(worker.Ask("alloc 8"), "ok "));
  CHECK(worker.Leave() == "ok");
  CHECK(node.BecomeFree(8));
  node.CheckAllIsBack();
}

}  // namespace
}  // namespace kvpool::test
