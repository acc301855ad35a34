// Connections: thousands that come and go, pings, and clients whose daemon or parent is gone.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "client/client.h"
#include "core/check.h"
#include "tests/integration/support/block_bytes.h"
#include "tests/integration/support/log_lines.h"
#include "tests/integration/support/node.h"
#include "tests/integration/support/test_device.h"
#include "tests/integration/support/worker.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"

namespace kvpool::test {
namespace {

using std::chrono::seconds;

// A connected socket; waits while the daemon's queue of connections is full.
int ConnectTo(const std::string& address, int type) {
  const std::string path = address.substr(std::string("unix:").size());
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), name.sun_path);
  const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  KVPOOL_CHECK(fd >= 0);
  KVPOOL_CHECK(connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0);
  return fd;
}

void Send(int fd, const std::string& bytes) {
  // The daemon may have ended the connection already.
  static_cast<void>(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
// An empty SETTINGS frame: length 0, type 4, no flags, stream 0.
const std::string kSettings{"\0\0\0\4\0\0\0\0\0", 9};

// One of the ways in which a peer comes and goes.
void ComeAndGo(int way, const std::string& address) {
  if (way == 5) {
    const int fd = ConnectTo(address + ".fd", SOCK_SEQPACKET);
    Send(fd, "no request");
    close(fd);
    return;
  }
  const int fd = ConnectTo(address, SOCK_STREAM);
  if (way == 1) Send(fd, std::string(kPreface).substr(0, 10));  // Cut in the middle.
  if (way == 2) Send(fd, kPreface + kSettings);
  if (way == 3) Send(fd, "GET / HTTP/1.1\r\n\r\n");
  if (way == 4) {
    // What the daemon sends is never read, so the close is a reset to it.
    Send(fd, kPreface + kSettings);
    char byte = 0;
    static_cast<void>(recv(fd, &byte, 1, 0));
  }
  close(fd);
}

TEST_CASE("Ten thousand connections, whole, cut and reset, leave nothing behind", "[host]") {
  constexpr int kConnections = UnlessSanitized(10'000, 2'000);
  Node node(/*num_blocks=*/4);
  const std::string address = node.daemon().worker_socket();
  uint64_t resident_before = 0;
  for (int i = 0; i < kConnections; ++i) {
    ComeAndGo(i % 6, address);
    if (i % 100 == 0) {
      RawClient client(node.daemon().Connect(address));
      REQUIRE(Said((*RawSession::Open(client, {}))->Close()) == "OK");
    }
    if (i == kConnections / 2) resident_before = node.daemon().ResidentBytes();
  }
  node.CheckAllIsBack();
  // The second half costs nothing that stays: a page a connection would be 20 MiB.
  if (!kIsSanitized) {
    CHECK(node.daemon().ResidentBytes() < resident_before + 8 * 1024 * 1024);
  }
}

// A connection whose pings are as frequent as the daemon of the test lets them be.
struct Pinging {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<RawClient> client;
};

Pinging MakePinging(Node& node) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 600);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 600);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  const auto channel = grpc::CreateCustomChannel(node.daemon().worker_socket(),
                                                 grpc::InsecureChannelCredentials(), arguments);
  return {.channel = channel, .client = std::make_unique<RawClient>(channel)};
}

// Whether it keeps its connection for some of the daemon's own intervals.
bool StaysReady(grpc::Channel& channel) {
  const auto end = std::chrono::system_clock::now() + seconds(4);
  return channel.GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY &&
         !channel.WaitForStateChange(GRPC_CHANNEL_READY, end);
}

TEST_CASE("An idle client that pings is not told to go, and keeps its session") {
  Node node({.pools_json = OnePool(4), .flags = {"--keepalive=1s"}});
  Pinging attached = MakePinging(node);
  Pinging silent = MakePinging(node);
  const auto session = *RawSession::Open(*attached.client, {});
  REQUIRE(session->Attach().ok());
  // Without a stream: no call is running on its connection.
  const auto unattached = *RawSession::Open(*silent.client, {});
  // No change for that long is what is wanted.
  auto stays = std::async(std::launch::async, [&] { return StaysReady(*silent.channel); });
  CHECK(StaysReady(*attached.channel));
  CHECK(stays.get());
  // The node's own connection was idle too, and without pings of its own it answers none while no
  // call runs.
  CHECK(Eventually([&] { return node.eyes().GetDaemon().ok(); }));
  CHECK(node.eyes().GetSession(session->id())->state() == v1::SessionStatus::STATE_ATTACHED);
  CHECK(Said(session->Alloc(2)) == "OK");
  CHECK(Said(unattached->Alloc(2)) == "OK");
  CHECK(Said(session->Close()) == "OK");
  CHECK(Said(unattached->Close()) == "OK");
  session->Detach();
  attached = {};
  silent = {};
  node.CheckAllIsBack();
}

TEST_CASE("A forked child of a client is refused, and its end is not its parent's session's") {
  Node node(/*num_blocks=*/8);
  Worker worker(node.daemon().worker_socket());
  REQUIRE(absl::StartsWith(worker.Ask("alloc 2"), "ok "));
  REQUIRE(worker.Ask("map") == "ok");
  for (int i = 0; i < 3; ++i) {
    CHECK(absl::StartsWith(worker.Ask("fork-call"), "ok error FAILED_PRECONDITION"));
    CHECK(worker.Ask("alive") == "ok");
    CHECK(node.Pool().held_blocks() == 2 + static_cast<uint32_t>(i));
    CHECK(absl::StartsWith(worker.Ask("alloc 1"), "ok "));
  }
  CHECK(worker.Leave() == "ok");
  node.CheckAllIsBack();
}

// How many mappings of shared memory this process has.
size_t CountOwnMemfds() {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  size_t count = 0;
  while (std::getline(maps, line)) count += absl::StrContains(line, "/memfd:") ? 1U : 0U;
  return count;
}

TEST_CASE("A client whose daemon was killed closes within a second") {
  DaemonProcess daemon({.pools_json = OnePool(4)});
  auto client = client::Client::Create({.socket = daemon.worker_socket()});
  REQUIRE(client.ok());
  auto session = client->OpenSession({.pool = "p", .client_name = "bereaved"});
  REQUIRE(session.ok());
  REQUIRE(CountOwnMemfds() == 0);
  std::optional<client::Mapping> mapping = Value((*session)->Map());
  const size_t mapped = TestDevice().empty() ? 1 : 0;
  REQUIRE(CountOwnMemfds() == mapped);
  auto blocks = (*session)->Alloc(2);
  REQUIRE(blocks.ok());
  daemon.process().Kill();

  const auto begin = std::chrono::steady_clock::now();
  blocks->clear();
  static_cast<void>((*session)->Close());  // Nobody is there to say OK.
  session->reset();
  CHECK(std::chrono::steady_clock::now() - begin < seconds(UnlessSanitized(1, 5)));
  // The memory is the process's own now, and goes with the mapping.
  const std::vector<std::byte> written(16, std::byte{1});
  REQUIRE(WriteSide(*mapping, 0, /*is_k=*/true, BlockId{0}, written) == absl::OkStatus());
  const std::vector<std::byte> read = Value(ReadSide(*mapping, 0, /*is_k=*/true, BlockId{0}));
  CHECK(std::ranges::equal(std::span(read).first(16), written));
  CHECK(CountOwnMemfds() == mapped);
  mapping.reset();
  CHECK(CountOwnMemfds() == 0);
}

TEST_CASE("A client that outlives its daemon is told so, and opens a session with the next one") {
  DaemonProcess daemon({.pools_json = OnePool(4)});
  Worker worker(daemon.worker_socket());
  REQUIRE(absl::StartsWith(worker.Ask("alloc 2"), "ok "));
  daemon.process().Kill();
  daemon.Start();
  CHECK(Eventually([&] { return worker.Ask("alive") != "ok"; }));
  CHECK(absl::StartsWith(worker.Ask("alloc 1"), "error NOT_FOUND SESSION_UNKNOWN"));
  REQUIRE(worker.Ask("open p again") == "ok");
  CHECK(absl::StartsWith(worker.Ask("alloc 4"), "ok "));
  CHECK(worker.Leave() == "ok");
  CHECK(daemon.Stop() == 0);
}

// Listens where a daemon was and ends every connection, until each of the processes has tried.
void WaitUntilRetrying(const std::string& address, std::set<pid_t> pids) {
  const std::string path = address.substr(std::string("unix:").size());
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), name.sun_path);
  std::filesystem::remove(path);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  KVPOOL_CHECK(listener >= 0);
  KVPOOL_CHECK(bind(listener, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0);
  KVPOOL_CHECK(listen(listener, 128) == 0);
  while (!pids.empty()) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    KVPOOL_CHECK(fd >= 0);
    ucred peer{};
    socklen_t size = sizeof(peer);
    KVPOOL_CHECK(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0);
    pids.erase(peer.pid);
    close(fd);
  }
  close(listener);
}

TEST_CASE("All workers that wait for a restart come back, with little more than a session each") {
  constexpr size_t kWorkers = UnlessSanitized(64, 12);
  DaemonProcess daemon({.pools_json = OnePool(64)});
  std::vector<std::unique_ptr<Worker>> workers;
  std::set<pid_t> pids;
  for (size_t i = 0; i < kWorkers; ++i) {
    workers.push_back(std::make_unique<Worker>(daemon.worker_socket(), ""));
    pids.insert(workers.back()->pid());
  }
  for (const auto& worker : workers) worker->Tell("open p first");
  for (const auto& worker : workers) REQUIRE(worker->Answer() == "ok");
  daemon.process().Kill();
  for (const auto& worker : workers) worker->Tell("open p again");
  WaitUntilRetrying(daemon.worker_socket(), pids);
  const size_t opened_before = CountLines(daemon.Log(), {" event=session_opened "});

  daemon.Start();
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& worker : workers) CHECK(worker->Answer() == "ok");
  CHECK(std::chrono::steady_clock::now() - begin < seconds(UnlessSanitized(4, 20)));
  for (const auto& worker : workers) CHECK(absl::StartsWith(worker->Ask("alloc 1"), "ok "));
  RawClient eyes(daemon.Connect(daemon.operator_socket()));
  CHECK(Value(eyes.ListSessions("p")).size() == kWorkers);
  for (const auto& worker : workers) CHECK(worker->Leave() == "ok");
  CHECK(daemon.Stop() == 0);
  // An answer may have come too late for its caller, who opened another then.
  const size_t opened = CountLines(daemon.Log(), {" event=session_opened "}) - opened_before;
  CHECK(opened >= kWorkers);
  CHECK(opened <= 2 * kWorkers);
}

}  // namespace
}  // namespace kvpool::test
