#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include <grpcpp/client_context.h>

#include "kvpool/v1/admin.grpc.pb.h"
#include "kvpool/v1/block.grpc.pb.h"
#include "tests/support/catch.h"
#include "tests/support/daemon_process.h"
#include "tests/support/eventually.h"
#include "tests/support/sanitizer.h"

namespace kvpool::test {
namespace {

constexpr char kPools[] =
    R"([{"name": "p", "num_layers": 1, "num_kv_heads": 1, "head_dim": 64, "num_blocks": 16}])";

using grpc::health::v1::HealthCheckResponse;

HealthCheckResponse::ServingStatus Health(const DaemonProcess& daemon, const std::string& service) {
  const auto stub = grpc::health::v1::Health::NewStub(daemon.Connect(daemon.operator_socket()));
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  HealthCheckResponse response;
  const grpc::Status status = stub->Check(&context, request, &response);
  return status.ok() ? response.status() : HealthCheckResponse::UNKNOWN;
}

// A session in pool "p" that lives for a minute by itself.
class OpenedSession {
 public:
  explicit OpenedSession(const DaemonProcess& daemon)
      : stub_(v1::BlockService::NewStub(daemon.Connect(daemon.worker_socket()))) {
    REQUIRE(Open().ok());
  }

  grpc::Status Open() {
    grpc::ClientContext context;
    v1::OpenSessionRequest request;
    request.set_pool("p");
    request.mutable_ttl()->set_seconds(60);
    v1::OpenSessionResponse response;
    const grpc::Status status = stub_->OpenSession(&context, request, &response);
    if (status.ok()) id_ = response.session_id();
    return status;
  }

  grpc::Status Close() {
    grpc::ClientContext context;
    v1::CloseSessionRequest request;
    request.set_session_id(id_);
    v1::CloseSessionResponse response;
    return stub_->CloseSession(&context, request, &response);
  }

  const std::string& id() const { return id_; }
  v1::BlockService::Stub& stub() { return *stub_; }

 private:
  std::unique_ptr<v1::BlockService::Stub> stub_;
  std::string id_;
};

// Of processor time that the process has used.
uint64_t CpuTicks(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  // After the program's name, in parentheses: user and system time are fields 14 and 15.
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  uint64_t user = 0;
  uint64_t system = 0;
  fields >> user >> system;
  return user + system;
}

bool HasSockets(const DaemonProcess& daemon) {
  return std::filesystem::exists(daemon.directory().File("worker/kvpool.sock")) ||
         std::filesystem::exists(daemon.directory().File("operator/kvpool.sock.fd"));
}

// The files that the daemon made and that are still there.
std::vector<std::string> Leftovers(const DaemonProcess& daemon) {
  std::vector<std::string> files;
  for (const std::string directory : {"worker", "operator"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(daemon.directory().File(directory))) {
      files.push_back(entry.path().string());
    }
  }
  return files;
}

TEST_CASE("A daemon without sessions ends at once and leaves no socket") {
  for (const int signal : {SIGTERM, SIGINT}) {
    CAPTURE(signal);
    DaemonProcess daemon({.pools_json = kPools, .flags = {"--drain_deadline=1h"}});
    CHECK(HasSockets(daemon));
    CHECK(Health(daemon, "kvpool.v1.BlockService") == HealthCheckResponse::SERVING);
    daemon.process().Signal(signal);
    CHECK(daemon.process().Wait() == 0);
    CHECK_FALSE(HasSockets(daemon));
  }
}

TEST_CASE("A draining daemon tells its streams, refuses new sessions and ends with the last") {
  DaemonProcess daemon({.pools_json = kPools, .flags = {"--drain_deadline=1h"}});
  OpenedSession session(daemon);
  grpc::ClientContext context;
  v1::KeepAliveRequest request;
  request.set_session_id(session.id());
  const auto stream = session.stub().KeepAlive(&context, request);
  v1::KeepAliveResponse response;
  REQUIRE(stream->Read(&response));
  CHECK(response.notice().kind() == v1::Notice::KIND_ATTACHED);

  daemon.process().Signal(SIGTERM);
  REQUIRE(stream->Read(&response));
  CHECK(response.notice().kind() == v1::Notice::KIND_DRAINING);
  CHECK(response.notice().deadline().seconds() >= 3590);
  CHECK(session.Open().error_code() == grpc::StatusCode::UNAVAILABLE);
  // New connections are still served: who watches health sees the drain.
  CHECK(Health(daemon, "") == HealthCheckResponse::NOT_SERVING);
  CHECK(Health(daemon, "kvpool.v1.BlockService") == HealthCheckResponse::NOT_SERVING);
  CHECK(daemon.process().IsRunning());

  CHECK(session.Close().ok());
  CHECK_FALSE(stream->Read(&response));
  CHECK(stream->Finish().ok());
  CHECK(daemon.process().Wait() == 0);
}

TEST_CASE("At the drain's deadline the streams end with UNAVAILABLE, and the log names them") {
  DaemonProcess daemon({.pools_json = kPools, .flags = {"--drain_deadline=100ms"}});
  OpenedSession session(daemon);
  const OpenedSession unattached(daemon);
  OpenedSession closed(daemon);
  REQUIRE(closed.Close().ok());
  grpc::ClientContext context;
  v1::KeepAliveRequest request;
  request.set_session_id(session.id());
  const auto stream = session.stub().KeepAlive(&context, request);
  v1::KeepAliveResponse response;
  REQUIRE(stream->Read(&response));
  daemon.process().Signal(SIGTERM);
  while (stream->Read(&response)) continue;
  CHECK(stream->Finish().error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK(daemon.process().Wait() == 0);
  CAPTURE(daemon.Log());
  for (const std::string& id : {session.id(), unattached.id()}) {
    CHECK(absl::StrContains(daemon.Log(),
                            absl::StrCat("event=session_cut_off session=", id.substr(0, 8),
                                         " pool=p pid=", getpid(), "\n")));
  }
  CHECK_FALSE(absl::StrContains(
      daemon.Log(), absl::StrCat("event=session_cut_off session=", closed.id().substr(0, 8))));
}

// Asks the daemon to drain, in a thread of its own; joins with its answer.
std::future<grpc::Status> Drain(DaemonProcess& daemon, int64_t deadline_seconds) {
  return std::async(std::launch::async, [&daemon, deadline_seconds] {
    const auto stub = v1::AdminService::NewStub(daemon.Connect(daemon.operator_socket()));
    v1::DrainRequest request;
    request.mutable_deadline()->set_seconds(deadline_seconds);
    v1::DrainResponse response;
    grpc::ClientContext context;
    return stub->Drain(&context, request, &response);
  });
}

TEST_CASE("Drain answers when the last session is closed, and the daemon ends") {
  DaemonProcess daemon({.pools_json = kPools, .flags = {"--drain_deadline=1s"}});
  OpenedSession session(daemon);
  auto drained = Drain(daemon, 3'600);
  REQUIRE(Eventually([&] { return absl::StrContains(daemon.Log(), "event=draining"); }));
  CHECK(session.Open().error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK(drained.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  CHECK(session.Close().ok());
  CHECK(drained.get().ok());
  CHECK(daemon.process().Wait() == 0);
  CHECK(Leftovers(daemon).empty());
  CHECK(absl::StrContains(daemon.Log(), "event=admin method=Drain"));
}

TEST_CASE("A later Drain brings the end forward, and both answer") {
  DaemonProcess daemon({.pools_json = kPools, .flags = {"--drain_deadline=1h"}});
  const OpenedSession session(daemon);
  auto first = Drain(daemon, 3'600);
  REQUIRE(Eventually([&] { return absl::StrContains(daemon.Log(), "event=draining"); }));
  auto second = Drain(daemon, 0);
  CHECK(first.get().ok());
  CHECK(second.get().ok());
  CHECK(daemon.process().Wait() == 0);
  CHECK(absl::StrContains(daemon.Log(), "event=session_cut_off"));
}

TEST_CASE("Two signals at once end a daemon, and leave no socket") {
  for (int i = 0; i < 20; ++i) {
    DaemonProcess daemon({.pools_json = kPools, .flags = {"--drain_deadline=1h"}});
    const OpenedSession session(daemon);
    daemon.process().Signal(SIGTERM);
    daemon.process().Signal(SIGINT);
    const int code = daemon.process().Wait();
    CHECK((code == 128 + SIGTERM || code == 128 + SIGINT));
    CHECK(Leftovers(daemon).empty());
  }
}

TEST_CASE("A second signal ends a draining daemon at once, and leaves no socket") {
  DaemonProcess daemon({.pools_json = kPools, .flags = {"--drain_deadline=1h"}});
  const OpenedSession session(daemon);
  daemon.process().Signal(SIGTERM);
  REQUIRE(Eventually([&] { return absl::StrContains(daemon.Log(), "event=draining"); }));
  daemon.process().Signal(SIGTERM);
  CHECK(daemon.process().Wait() == 128 + SIGTERM);
  CHECK(Leftovers(daemon).empty());
  daemon.Start();
  CHECK(daemon.Stop() == 0);
}

// Half a gigabyte: making it takes a tenth of a second or more.
constexpr char kLargePool[] =
    R"([{"name": "p", "num_layers": 32, "num_kv_heads": 8, "head_dim": 128, "num_blocks": 256}])";

TEST_CASE("A daemon told to end while it makes a large pool ends soon, and leaves no socket") {
  DaemonProcess daemon({.pools_json = kLargePool, .wait_until_serving = false});
  REQUIRE(Eventually([&] { return HasSockets(daemon); }));
  const auto begin = std::chrono::steady_clock::now();
  daemon.process().Signal(SIGTERM);
  CHECK(daemon.process().Wait() == 0);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  CHECK_FALSE(HasSockets(daemon));
  CHECK(absl::StrContains(daemon.Log(), "event=stopped"));
}

TEST_CASE("A daemon that is out of descriptors serves whom it has, idles, and accepts again") {
  DaemonProcess daemon({.pools_json = kPools});
  OpenedSession session(daemon);
  const pid_t pid = daemon.process().pid();
  rlimit before{};
  REQUIRE(prlimit(pid, RLIMIT_NOFILE, nullptr, &before) == 0);
  // Another would have the lowest number that is free.
  rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  const std::string fds = "/proc/" + std::to_string(pid) + "/fd/";
  while (std::filesystem::is_symlink(fds + std::to_string(none.rlim_cur))) ++none.rlim_cur;
  REQUIRE(prlimit(pid, RLIMIT_NOFILE, &none, nullptr) == 0);

  const auto begin = std::chrono::steady_clock::now();
  const uint64_t ticks = CpuTicks(pid);
  for (int i = 0; i < 10; ++i) {
    CHECK(Health(daemon, "") == HealthCheckResponse::UNKNOWN);
    CHECK(session.Open().ok());
  }
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  const double used =
      static_cast<double>(CpuTicks(pid) - ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
  CAPTURE(passed.count(), used);
  CHECK(used < passed.count() / 2);
  CHECK(absl::StrContains(daemon.Log(), "event=accept_failed"));

  REQUIRE(prlimit(pid, RLIMIT_NOFILE, &before, nullptr) == 0);
  CHECK(Eventually([&] { return Health(daemon, "") == HealthCheckResponse::SERVING; }));
  CHECK(session.Close().ok());
}

TEST_CASE("A second daemon on the same sockets is refused, and the first stays reachable") {
  DaemonProcess first({.pools_json = kPools});
  DaemonProcess second({.pools_json = "[]",
                        .listeners_json = R"([{"address": ")" + first.worker_socket() +
                                          R"(", "role": "ROLE_WORKER"}])",
                        .wait_until_serving = false});
  CHECK(second.process().Wait() == 1);
  CHECK(absl::StrContains(second.Log(),
                          "another daemon serves " + first.directory().File("worker/kvpool.sock")));
  const OpenedSession session(first);
  CHECK_FALSE(session.id().empty());
}

TEST_CASE("A killed daemon is started again in its place") {
  DaemonProcess daemon({.pools_json = kPools});
  for (int i = 0; i < 5; ++i) {
    CHECK(daemon.process().Kill() == 128 + SIGKILL);
    daemon.Start();
    const OpenedSession session(daemon);
    CHECK_FALSE(session.id().empty());
  }
}

TEST_CASE("A wrong config ends the start with file, field and value, and makes nothing") {
  DaemonProcess daemon(
      {.pools_json = R"([{"name": "p", "num_blocks": 1.5}])", .wait_until_serving = false});
  CHECK(daemon.process().Wait() == 1);
  CHECK(absl::StrContains(daemon.Log(), daemon.directory().File("config.json")));
  CHECK(absl::StrContains(daemon.Log(), "pools[0].num_blocks: 1.5"));
  CHECK_FALSE(std::filesystem::exists(daemon.directory().File("worker")));
}

TEST_CASE("A pool that can never fit ends the start with what it needs and what there is") {
  DaemonProcess daemon({.pools_json = R"([{"name": "p", "num_layers": 1000, "num_kv_heads": 8,
                                           "head_dim": 128, "num_blocks": 1000000}])",
                        .wait_until_serving = false});
  CHECK(daemon.process().Wait() == 1);
  CHECK(absl::StrContains(daemon.Log(), "need 32768000000000 bytes"));
  CHECK(absl::StrContains(daemon.Log(), "available"));
  CHECK_FALSE(std::filesystem::exists(daemon.directory().File("worker")));
}

TEST_CASE("A thousand connections leave the daemon as it was") {
  DaemonProcess daemon({.pools_json = kPools});
  const auto connect = [&] {
    const auto stub = grpc::health::v1::Health::NewStub(daemon.Connect(daemon.operator_socket()));
    grpc::ClientContext context;
    HealthCheckResponse response;
    REQUIRE(stub->Check(&context, {}, &response).ok());
  };
  for (int i = 0; i < 100; ++i) connect();
  size_t fds = 0;
  REQUIRE(Eventually([&] {
    const size_t count = daemon.CountFds();
    return std::exchange(fds, count) == count;
  }));
  const size_t threads = daemon.CountThreads();
  const uint64_t resident = daemon.ResidentBytes();
  for (int i = 0; i < 1000; ++i) connect();
  CHECK(Eventually([&] { return daemon.CountFds() <= fds; }));
  // gRPC's own pools keep a few more or fewer, whatever the number of connections.
  CHECK(daemon.CountThreads() <= threads + 4);
  // A sanitizer keeps what is freed.
  if (!kIsSanitized) CHECK(daemon.ResidentBytes() < resident + (4 << 20));
}

}  // namespace
}  // namespace kvpool::test
