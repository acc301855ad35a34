#include "server/fd_service.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <map>

#include "core/device/host_device.h"
#include "core/executor.h"
#include "core/mutex.h"
#include "kvpool/v1/block.pb.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/server/socket_client.h"

namespace kvpool::server {
namespace {

struct Answer {
  bool has_ended = false;  // The connection, instead of an answer.
  v1::RegionFdResponse response;
  std::vector<UniqueFd> fds;
};

// Knows a connection's process by what the test says of the next one: processes whose pids are
// those, of one uid. Each connection of pid 0 is taken for a process of its own.
class NamedProcesses final : public ProcessTable {
 public:
  absl::StatusOr<std::shared_ptr<const Process>> FromSocket(int /*socket*/) override {
    const MutexLock lock(mutex_);
    std::shared_ptr<const Process>& process = by_pid_[pid_];
    if (process == nullptr || pid_ == 0) {
      process = std::make_shared<const Process>(ProcessId{++last_id_}, pid_, /*uid=*/1000,
                                                ReclaimProof::kPidfd);
    }
    return process;
  }
  void ConnectionOpened(const Process& /*process*/) override { ++opened_count_; }
  void ConnectionClosed(const Process& /*process*/) override {}
  ReclaimProof weakest_proof() const override { return ReclaimProof::kPidfd; }

  void SetPid(pid_t pid) {
    const MutexLock lock(mutex_);
    pid_ = pid;
  }
  size_t opened_count() const { return opened_count_; }

 private:
  Mutex mutex_;
  pid_t pid_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<pid_t, std::shared_ptr<const Process>> by_pid_ ABSL_GUARDED_BY(mutex_);
  std::atomic<size_t> opened_count_ = 0;
};

struct Fixture {
  explicit Fixture(Duration max_silence = std::chrono::hours(1), size_t max_connections = 100,
                   NamedProcesses* named_processes = nullptr)
      : named(named_processes) {
    PoolSpec spec;
    spec.name = "p";
    spec.num_layers = 1;
    spec.num_kv_heads = 1;
    spec.head_dim = 64;
    spec.num_blocks = 8;
    served = MakePool(spec);
    spec.name = "other";
    other = MakePool(spec);
    Open(session, served);
    auto made = FdService::Start({.max_connections = max_connections, .max_silence = max_silence},
                                 {worker.get(), stranger.get()},
                                 named == nullptr ? *processes : *named, hub, registry);
    REQUIRE(made.ok());
    service = *std::move(made);
  }

  ServedPool MakePool(const PoolSpec& spec) {
    const auto pool = registry.Create(spec);
    REQUIRE(pool.ok());
    return *pool;
  }

  void Open(const SessionId& id, const ServedPool& pool) {
    hub.Add(id, pool.pool, opener);
    REQUIRE(pool.pool
                ->OpenSession({.id = id,
                               .tenant = "team-a",
                               .client_name = "",
                               .model_id = "",
                               .pid = 1,
                               .uid = 0,
                               .process = opener->id(),
                               .ttl = std::chrono::minutes(10),
                               .guaranteed_blocks = 0,
                               .join = std::nullopt})
                .ok());
  }

  std::unique_ptr<Listener> Bind(const std::string& name, const std::string& tenant) {
    auto listener = Listener::Bind({.path = directory.File(name),
                                    .role = v1::ROLE_WORKER,
                                    .tenant = tenant,
                                    .mode = 0600,
                                    .group = std::nullopt});
    REQUIRE(listener.ok());
    return *std::move(listener);
  }

  UniqueFd Connect(const std::string& name = "worker") const {
    return ConnectTo(directory.File(name + ".fd"), SOCK_SEQPACKET);
  }

  // A connection that the service has taken for one of the process `pid`.
  UniqueFd ConnectAs(pid_t pid) const {
    named->SetPid(pid);
    const size_t before = named->opened_count();
    UniqueFd fd = Connect();
    REQUIRE(test::Eventually([&] { return named->opened_count() > before; }));
    return fd;
  }

  // Whether the connection is served.
  bool Lives(const UniqueFd& fd) const;

  std::string Request(const SessionId& id, uint64_t region) const {
    v1::RegionFdRequest request;
    request.set_session_id(id.ToString());
    request.set_region_id(region);
    return request.SerializeAsString();
  }

  std::vector<ProcessId> Processes() const {
    return served.pool->GetSession(session, 0)->processes;
  }

  NamedProcesses* const named;
  test::TempDir directory;
  InlineExecutor executor;
  HostDevice device{executor};
  DeviceTable devices{device};
  SessionHub hub;
  PoolRegistry registry{{.limits = LedgerLimits{},
                         .trace = false,
                         .poison = false,
                         .clock = [] { return std::chrono::steady_clock::now(); }},
                        devices,
                        hub};
  std::unique_ptr<Listener> worker = Bind("worker", "team-a");
  std::unique_ptr<Listener> stranger = Bind("stranger", "team-b");
  std::unique_ptr<ProcessTable> processes =
      *ProcessTable::Create(std::chrono::hours(1), true, [](ProcessId) {});
  std::shared_ptr<const Process> opener =
      std::make_shared<const Process>(ProcessId{1'000'000}, 1, 0, ReclaimProof::kPidfd);
  SessionId session{.bytes = {1, 2, 3}};
  ServedPool served;
  ServedPool other;
  std::unique_ptr<FdService> service;
};

bool SendPacket(const UniqueFd& fd, const std::string& bytes) {
  return send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

Answer Receive(const UniqueFd& fd) {
  std::array<char, 4096> bytes{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(8 * sizeof(int))> control{};
  iovec vector{.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = recvmsg(fd.get(), &message, MSG_CMSG_CLOEXEC);
  Answer answer;
  // An OK answer for no bytes would be an empty packet, but a region has some.
  answer.has_ended = size <= 0;
  if (answer.has_ended) return answer;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int passed = -1;
      std::memcpy(&passed, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      answer.fds.emplace_back(passed);
    }
  }
  REQUIRE(answer.response.ParseFromArray(bytes.data(), static_cast<int>(size)));
  return answer;
}

Answer Ask(const UniqueFd& fd, const std::string& bytes) {
  REQUIRE(SendPacket(fd, bytes));
  return Receive(fd);
}

bool Fixture::Lives(const UniqueFd& fd) const {
  return SendPacket(fd, Request(session, served.region_ids[0])) && !Receive(fd).has_ended;
}

TEST_CASE("A session's process is given the region's descriptor, and is its process before") {
  Fixture f;
  const UniqueFd client = f.Connect();
  CHECK(f.Processes().size() == 1);
  const Answer answer = Ask(client, f.Request(f.session, f.served.region_ids[0]));
  REQUIRE_FALSE(answer.has_ended);
  CHECK(answer.response.code() == 0);
  CHECK(answer.response.size_bytes() == f.served.pool->memory().regions()[0]->size_bytes());
  REQUIRE(answer.fds.size() == 1);
  CHECK(f.Processes().size() == 2);
  // Many in turn.
  CHECK(Ask(client, f.Request(f.session, f.served.region_ids[0])).fds.size() == 1);
  CHECK(f.Processes().size() == 2);
}

TEST_CASE("The descriptor reads and writes, and lets nobody change the size or the seals") {
  Fixture f;
  const UniqueFd client = f.Connect();
  const Answer answer = Ask(client, f.Request(f.session, f.served.region_ids[0]));
  REQUIRE(answer.fds.size() == 1);
  const int fd = answer.fds[0].get();
  const auto size = answer.response.size_bytes();
  CHECK((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR);
  void* bytes = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  REQUIRE(bytes != MAP_FAILED);
  static_cast<char*>(bytes)[0] = 1;
  munmap(bytes, size);

  CHECK(ftruncate(fd, 0) != 0);
  CHECK(ftruncate(fd, static_cast<off_t>(2 * size)) != 0);
  CHECK(fallocate(fd, 0, 0, static_cast<off_t>(2 * size)) != 0);
  CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) != 0);
  CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0);
  CHECK((fcntl(fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) ==
        (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
}

TEST_CASE("A request that is wrong is answered with code and detail, without a descriptor") {
  Fixture f;
  const SessionId unknown{.bytes = {9}};
  struct Case {
    const char* what;
    std::string listener;
    std::string request;
    absl::StatusCode code;
    v1::ErrorDetail::Reason reason = v1::ErrorDetail::REASON_UNSPECIFIED;
  };
  v1::RegionFdRequest no_id;
  no_id.set_session_id("zz");
  const std::vector<Case> cases = {
      {"unknown session", "worker", f.Request(unknown, f.served.region_ids[0]),
       absl::StatusCode::kNotFound, v1::ErrorDetail::REASON_SESSION_UNKNOWN},
      {"unknown region", "worker", f.Request(f.session, 999), absl::StatusCode::kNotFound},
      {"another pool's region", "worker", f.Request(f.session, f.other.region_ids[0]),
       absl::StatusCode::kNotFound},
      {"another tenant", "stranger", f.Request(f.session, f.served.region_ids[0]),
       absl::StatusCode::kPermissionDenied},
      {"no session id", "worker", no_id.SerializeAsString(), absl::StatusCode::kInvalidArgument},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    const UniqueFd client = f.Connect(c.listener);
    const Answer answer = Ask(client, c.request);
    REQUIRE_FALSE(answer.has_ended);
    CHECK(answer.response.code() == static_cast<int>(c.code));
    CHECK_FALSE(answer.response.message().empty());
    REQUIRE(answer.response.details_size() == 1);
    v1::ErrorDetail detail;
    REQUIRE(answer.response.details(0).UnpackTo(&detail));
    CHECK(detail.reason() == c.reason);
    CHECK(answer.fds.empty());
    CHECK(f.Processes().size() == 1);
    // The connection lives on.
    CHECK_FALSE(Ask(client, c.request).has_ended);
  }
}

TEST_CASE("A session that has ended is given nothing") {
  Fixture f;
  REQUIRE(f.served.pool->TerminateSession(f.session, /*release_claims=*/false).ok());
  const UniqueFd client = f.Connect();
  const Answer answer = Ask(client, f.Request(f.session, f.served.region_ids[0]));
  REQUIRE_FALSE(answer.has_ended);
  CHECK(answer.response.code() == static_cast<int>(absl::StatusCode::kNotFound));
  CHECK(answer.fds.empty());
}

TEST_CASE("A packet that is no request ends its connection and no other") {
  Fixture f;
  const UniqueFd bystander = f.Connect();
  for (const std::string& packet : {std::string("\xff\xff\xff\xff"), std::string(1, '\x0a'),
                                    std::string(513, '\0'), std::string(100'000, 'x')}) {
    CAPTURE(packet.size());
    const UniqueFd client = f.Connect();
    REQUIRE(SendPacket(client, packet));
    CHECK(ReadsEnd(client.get()));
  }
  CHECK(Ask(bystander, f.Request(f.session, f.served.region_ids[0])).fds.size() == 1);
}

TEST_CASE("A request of 512 bytes is read") {
  Fixture f;
  v1::RegionFdRequest request;
  request.set_session_id(std::string(509, 'z'));  // And 3 bytes of tag and length.
  REQUIRE(request.SerializeAsString().size() == 512);
  const UniqueFd client = f.Connect();
  const Answer answer = Ask(client, request.SerializeAsString());
  REQUIRE_FALSE(answer.has_ended);
  CHECK(answer.response.code() == static_cast<int>(absl::StatusCode::kInvalidArgument));
}

TEST_CASE("A packet with descriptors ends the connection, and they are closed") {
  Fixture f;
  const UniqueFd client = f.Connect();
  std::array<int, 2> ends{};
  REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);

  std::string bytes = f.Request(f.session, f.served.region_ids[0]);
  iovec vector{.iov_base = bytes.data(), .iov_len = bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int passed = write_end.get();
  std::memcpy(CMSG_DATA(header), &passed, sizeof(int));
  REQUIRE(sendmsg(client.get(), &message, MSG_NOSIGNAL) > 0);

  CHECK(ReadsEnd(client.get()));
  CHECK(f.Processes().size() == 1);
  // Whoever had the other copy of the write end has closed it.
  write_end.Reset();
  CHECK(ReadsEnd(read_end.get()));
}

TEST_CASE("Silence ends a connection") {
  Fixture f(/*max_silence=*/std::chrono::milliseconds(20));
  const UniqueFd client = f.Connect();
  CHECK(ReadsEnd(client.get()));
}

TEST_CASE("A process that takes all connections loses the one heard longest ago to another") {
  NamedProcesses named;
  Fixture f(std::chrono::hours(1), /*max_connections=*/3, &named);
  const UniqueFd first = f.ConnectAs(1);
  const UniqueFd second = f.ConnectAs(1);
  const UniqueFd third = f.ConnectAs(1);
  CHECK(f.Lives(first));
  const UniqueFd other = f.ConnectAs(2);
  CHECK(ReadsEnd(second.get()));
  CHECK(f.Lives(first));
  CHECK(f.Lives(third));
  CHECK(f.Lives(other));
}

TEST_CASE("A process that floods ends its own connections and nobody else's") {
  NamedProcesses named;
  Fixture f(std::chrono::hours(1), /*max_connections=*/3, &named);
  const UniqueFd silent = f.ConnectAs(2);
  std::vector<UniqueFd> flood;
  for (int i = 0; i < 100; ++i) flood.push_back(f.ConnectAs(1));
  for (size_t i = 0; i + 2 < flood.size(); ++i) CHECK(ReadsEnd(flood[i].get()));
  CHECK(f.Lives(flood[98]));
  CHECK(f.Lives(flood[99]));
  CHECK(f.Lives(silent));
}

TEST_CASE("Of many processes with a connection each, the one heard longest ago makes room") {
  const pid_t hidden_pid = GENERATE(0, 10);  // Two that cannot be seen are not one.
  NamedProcesses named;
  Fixture f(std::chrono::hours(1), /*max_connections=*/3, &named);
  std::vector<UniqueFd> clients;
  for (pid_t i = 0; i < 3; ++i) clients.push_back(f.ConnectAs(hidden_pid == 0 ? 0 : 10 + i));
  CHECK(f.Lives(clients[0]));
  const UniqueFd last = f.ConnectAs(hidden_pid == 0 ? 0 : 20);
  CHECK(ReadsEnd(clients[1].get()));
  CHECK(f.Lives(clients[0]));
  CHECK(f.Lives(clients[2]));
  CHECK(f.Lives(last));
}

TEST_CASE("The connections of one listener make no room on another") {
  NamedProcesses named;
  Fixture f(std::chrono::hours(1), /*max_connections=*/1, &named);
  const UniqueFd worker = f.ConnectAs(1);
  const UniqueFd stranger = f.Connect("stranger");
  CHECK_FALSE(Ask(stranger, f.Request(f.session, 999)).has_ended);
  CHECK(f.Lives(worker));
}

TEST_CASE("A peer that asks and never reads holds up nobody") {
  Fixture f;
  const UniqueFd greedy = f.Connect();
  const std::string request = f.Request(f.session, 999);
  // Until the service has given it up, or its buffers are full.
  for (int i = 0; i < 10'000; ++i) {
    if (send(greedy.get(), request.data(), request.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
        errno != EAGAIN) {
      break;
    }
  }
  const UniqueFd client = f.Connect();
  CHECK(Ask(client, f.Request(f.session, f.served.region_ids[0])).fds.size() == 1);
}

TEST_CASE("A thousand requests leave no descriptor open") {
  Fixture f;
  {
    const UniqueFd warm = f.Connect();
    REQUIRE(Ask(warm, f.Request(f.session, f.served.region_ids[0])).fds.size() == 1);
  }
  // The session keeps its process known from now on: one descriptor for all of them.
  size_t before = 0;
  REQUIRE(test::Eventually([&] {
    const size_t count = CountOpenFds();
    return std::exchange(before, count) == count;
  }));
  for (int i = 0; i < 1000; ++i) {
    const UniqueFd client = f.Connect();
    REQUIRE(Ask(client, f.Request(f.session, f.served.region_ids[0])).fds.size() == 1);
  }
  CHECK(test::Eventually([&] { return CountOpenFds() <= before; }));
}

}  // namespace
}  // namespace kvpool::server
