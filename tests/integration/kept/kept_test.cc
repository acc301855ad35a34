// Workers whose client library re-attaches by itself.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "tests/integration/support/node.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/eventually.h"

namespace kvpool::test {
namespace {

// A process with kept sessions, as main.cc says.
class KeptWorker {
 public:
  KeptWorker(const std::string& socket, size_t session_count, const std::string& name,
             const std::vector<std::string>& ttl_s = {})
      : process_({.arguments = Arguments(socket, session_count, name, ttl_s),
                  .environment = {},
                  .stderr_path = "",
                  .uid = std::nullopt}) {
    REQUIRE(Answer() == "ok");
  }

  ChildProcess& process() { return process_; }
  void Tell(const std::string& command) { process_.WriteLine(command); }
  std::string Answer() { return process_.ReadLine().value_or("(gone)"); }
  std::string Ask(const std::string& command) {
    Tell(command);
    return Answer();
  }
  int Leave() {
    process_.CloseStdin();
    return process_.Wait();
  }

 private:
  static std::vector<std::string> Arguments(const std::string& socket, size_t session_count,
                                            const std::string& name,
                                            const std::vector<std::string>& ttl_s) {
    std::vector<std::string> arguments = {KVPOOL_TEST_KEPT_WORKER, socket,
                                          absl::StrCat(session_count), name};
    arguments.insert(arguments.end(), ttl_s.begin(), ttl_s.end());
    return arguments;
  }

  ChildProcess process_;
};

constexpr size_t kProcesses = UnlessSanitized(16, 4);
constexpr size_t kSessions = 4;  // Of each process.

std::vector<std::unique_ptr<KeptWorker>> StartWorkers(const DaemonProcess& daemon) {
  std::vector<std::unique_ptr<KeptWorker>> workers;
  for (size_t i = 0; i < kProcesses; ++i) {
    workers.push_back(std::make_unique<KeptWorker>(daemon.worker_socket(), kSessions,
                                                   absl::StrCat("worker-", i)));
  }
  return workers;
}

// How many sessions there are of each name, but for ended ones whose blocks are claimed still.
std::map<std::string, int> CountSessions(RawClient& eyes) {
  std::map<std::string, int> counts;
  for (const v1::SessionStatus& session : Value(eyes.ListSessions("p"))) {
    if (session.state() != v1::SessionStatus::STATE_CLAIMING) ++counts[session.client_name()];
  }
  return counts;
}

// Whether each worker has its one session, and nobody another.
bool HaveOneEach(const DaemonProcess& daemon) {
  RawClient eyes(daemon.Connect(daemon.operator_socket()));
  const std::map<std::string, int> counts = CountSessions(eyes);
  return counts.size() == kProcesses * kSessions &&
         std::ranges::all_of(counts, [](const auto& entry) { return entry.second == 1; });
}

// That each session of each worker was lost once, and told so.
std::string LostOnce() {
  std::string once = "1 SESSION_UNKNOWN";
  for (size_t i = 1; i < kSessions; ++i) once += ", 1 SESSION_UNKNOWN";
  return once;
}

TEST_CASE("Workers of a daemon that is killed and restarted are all back, with a session each") {
  DaemonProcess daemon({.pools_json = OnePool(128)});
  const auto workers = StartWorkers(daemon);
  for (const auto& worker : workers) REQUIRE(worker->Ask("use") == "ok");
  REQUIRE(HaveOneEach(daemon));

  daemon.process().Kill();
  for (const auto& worker : workers) worker->Tell("use");
  daemon.Start();
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& worker : workers) CHECK(worker->Answer() == "ok");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%zu sessions are back %.3f s after SERVING\n", kProcesses * kSessions, took.count());

  // One whose answer was lost ends by its ttl.
  CHECK(Eventually([&] { return HaveOneEach(daemon); }));
  for (const auto& worker : workers) CHECK(worker->Ask("changes") == LostOnce());
  for (const auto& worker : workers) CHECK(worker->Leave() == 0);
  CHECK(daemon.Stop() == 0);
}

TEST_CASE("Workers of a daemon that drains go over to the next one") {
  DaemonProcess daemon({.pools_json = OnePool(128), .flags = {"--drain_deadline=500ms"}});
  const auto workers = StartWorkers(daemon);
  CHECK(daemon.Stop() == 0);
  daemon.Start();
  for (const auto& worker : workers) CHECK(worker->Ask("use") == "ok");
  CHECK(Eventually([&] { return HaveOneEach(daemon); }));
  for (const auto& worker : workers) CHECK(worker->Ask("changes") == LostOnce());
  for (const auto& worker : workers) CHECK(worker->Leave() == 0);
  CHECK(daemon.Stop() == 0);
}

TEST_CASE("A worker that was stopped for longer than the pings has a new session by itself") {
  Node node({.pools_json = OnePool(8), .flags = {"--keepalive=1500ms"}});
  KeptWorker worker(node.daemon().worker_socket(), 1, "worker");
  REQUIRE(worker.Ask("hold") == "ok");
  worker.process().Signal(SIGSTOP);
  // Its process may still write once it goes on, so its blocks are nobody else's.
  REQUIRE(Eventually([&] { return node.Pool().quarantined_blocks() == 2; }));
  worker.process().Signal(SIGCONT);

  CHECK(absl::StartsWith(worker.Ask("held"), "error NOT_FOUND SESSION_UNKNOWN"));
  CHECK(worker.Ask("use") == "ok");
  CHECK(worker.Ask("changes") == "1 SESSION_UNKNOWN");
  CHECK(CountSessions(node.eyes()) == std::map<std::string, int>{{"worker", 1}});
  // Letting go of the old one vouches that it writes no more.
  CHECK(node.Pool().quarantined_blocks() == 2);
  CHECK(worker.Ask("let-go") == "ok");
  CHECK(node.BecomeFree(8));
  CHECK(worker.Leave() == 0);
  node.CheckAllIsBack();
}

TEST_CASE("A worker whose session an operator ends has one again, though an answer is lost") {
  Node node(/*num_blocks=*/8);
  KeptWorker worker(node.daemon().worker_socket(), 1, "worker", {"1"});
  REQUIRE(worker.Ask("hold") == "ok");
  REQUIRE(worker.Ask("lose") == "ok");
  const std::string id = Value(node.eyes().ListSessions("p")).at(0).session_id();
  REQUIRE(node.eyes().TerminateSession(id, /*release_claims=*/false).ok());

  CHECK(absl::StartsWith(worker.Ask("held"), "error NOT_FOUND SESSION_UNKNOWN"));
  CHECK(worker.Ask("use") == "ok");
  CHECK(worker.Ask("changes") == "1 SESSION_UNKNOWN");
  // What was opened for nobody ends by its ttl.
  CHECK(Eventually([&] { return CountSessions(node.eyes())["worker"] == 1; }));
  CHECK(worker.Ask("let-go") == "ok");
  CHECK(node.BecomeFree(8));
  CHECK(worker.Leave() == 0);
  node.CheckAllIsBack();
}

}  // namespace
}  // namespace kvpool::test
