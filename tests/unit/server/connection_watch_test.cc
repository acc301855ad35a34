#include "server/connection_watch.h"

#include <condition_variable>
#include <deque>
#include <mutex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "tests/support/catch.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/server/connected_child.h"
#include "tests/unit/server/socket_client.h"

namespace kvpool::server {
namespace {

// Stands where gRPC does: keeps the descriptors that it is given until the test closes them.
class Adopter {
 public:
  std::function<void(int)> Callback() {
    return [this](int fd) {
      const std::lock_guard lock(mutex_);
      fds_.emplace_back(fd);
      changed_.notify_all();
    };
  }
  // The next descriptor adopted. Waits for it.
  UniqueFd Take() {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return !fds_.empty(); }));
    UniqueFd fd = std::move(fds_.front());
    fds_.pop_front();
    return fd;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<UniqueFd> fds_;
};

// What comes on it, in one piece, which it waits for.
std::string ReadAnswer(const UniqueFd& fd) {
  std::string answer(256, '\0');
  const ssize_t size = recv(fd.get(), answer.data(), answer.size(), 0);
  REQUIRE(size > 0);
  answer.resize(static_cast<size_t>(size));
  return answer;
}

struct Fixture {
  explicit Fixture(size_t max_connections = 100, size_t max_process_connections = 100) {
    auto made = ConnectionWatch::Create({.max_connections = max_connections,
                                         .max_process_connections = max_process_connections,
                                         .adopt = adopter.Callback()},
                                        {worker.get(), inspector.get()}, *processes, peers);
    REQUIRE(made.ok());
    watch = *std::move(made);
    watch->Begin();
  }

  std::unique_ptr<Listener> Bind(const std::string& name, v1::Role role,
                                 const std::string& tenant) {
    auto listener = Listener::Bind({.path = directory.File(name),
                                    .role = role,
                                    .tenant = tenant,
                                    .mode = 0600,
                                    .group = std::nullopt});
    REQUIRE(listener.ok());
    return *std::move(listener);
  }

  std::shared_ptr<const Peer> Find(const UniqueFd& fd) const {
    return peers.Find(absl::StrCat("fd:", fd.get()));
  }
  bool BecomesEmpty() const {
    return test::Eventually([&] { return watch->connection_count() == 0; });
  }

  test::TempDir directory;
  std::unique_ptr<Listener> worker = Bind("worker", v1::ROLE_WORKER, "team-a");
  std::unique_ptr<Listener> inspector = Bind("inspector", v1::ROLE_INSPECTOR, "");
  std::unique_ptr<ProcessTable> processes =
      *ProcessTable::Create(std::chrono::hours(1), true, [](ProcessId) {});
  PeerTable peers;
  Adopter adopter;
  std::unique_ptr<ConnectionWatch> watch;
};

TEST_CASE("A connection's peer is known before gRPC has it, and says where it came in") {
  Fixture f;
  const UniqueFd first = ConnectTo(f.directory.File("worker"), SOCK_STREAM);
  const UniqueFd first_end = f.adopter.Take();
  const auto peer = f.Find(first_end);
  REQUIRE(peer != nullptr);
  CHECK(peer->role == v1::ROLE_WORKER);
  CHECK(peer->tenant == "team-a");
  CHECK(peer->listener == "unix:" + f.directory.File("worker"));
  CHECK(peer->process->pid() == getpid());

  const UniqueFd second = ConnectTo(f.directory.File("inspector"), SOCK_STREAM);
  const UniqueFd second_end = f.adopter.Take();
  const auto other = f.Find(second_end);
  REQUIRE(other != nullptr);
  CHECK(other->role == v1::ROLE_INSPECTOR);
  CHECK(other->tenant == absl::StrCat("uid-", geteuid()));
  CHECK(other->connection != peer->connection);
  CHECK(other->process == peer->process);
}

TEST_CASE("A closed connection's peer stays until gRPC has closed its descriptor too") {
  Fixture f;
  UniqueFd client = ConnectTo(f.directory.File("worker"), SOCK_STREAM);
  UniqueFd end = f.adopter.Take();
  const int number = end.get();
  client.Reset();
  REQUIRE(ReadsEnd(end.get()));
  CHECK(f.Find(end) != nullptr);
  CHECK(f.watch->connection_count() == 1);
  end.Reset();
  CHECK(f.BecomesEmpty());
  CHECK(test::Eventually([&] { return f.peers.size() == 0; }));
  CHECK(f.peers.Find(absl::StrCat("fd:", number)) == nullptr);
}

TEST_CASE("A connection that gRPC shuts down and closes is forgotten") {
  Fixture f;
  const UniqueFd client = ConnectTo(f.directory.File("worker"), SOCK_STREAM);
  UniqueFd end = f.adopter.Take();
  shutdown(end.get(), SHUT_RDWR);
  end.Reset();
  CHECK(ReadsEnd(client.get()));
  CHECK(f.BecomesEmpty());
}

TEST_CASE("A number that another connection has by now is not taken for the closed one") {
  Fixture f;
  UniqueFd client = ConnectTo(f.directory.File("worker"), SOCK_STREAM);
  UniqueFd end = f.adopter.Take();
  const int number = end.get();
  UniqueFd second_client = ConnectTo(f.directory.File("worker"), SOCK_STREAM);
  UniqueFd second_end = f.adopter.Take();
  client.Reset();
  // gRPC closes, and its number goes to another socket before anybody looks.
  REQUIRE(dup2(second_end.get(), number) == number);
  CHECK(test::Eventually([&] { return f.watch->connection_count() == 1; }));
  CHECK(f.Find(second_end) != nullptr);
  close(number);
}

TEST_CASE("Numbers are not given again at once") {
  Fixture f;
  int last = -1;
  for (int i = 0; i < 20; ++i) {
    const UniqueFd client = ConnectTo(f.directory.File("worker"), SOCK_STREAM);
    const UniqueFd end = f.adopter.Take();
    CHECK(end.get() > last);
    last = end.get();
  }
}

TEST_CASE("A connection over the limit is turned away with the reason, and the others stay") {
  Fixture f(/*max_connections=*/2);
  UniqueFd first = ConnectTo(f.directory.File("worker"), SOCK_STREAM);
  UniqueFd first_end = f.adopter.Take();
  const UniqueFd second = ConnectTo(f.directory.File("worker"), SOCK_STREAM);
  const UniqueFd second_end = f.adopter.Take();
  const UniqueFd third = ConnectTo(f.directory.File("worker"), SOCK_STREAM);
  CHECK(absl::StrContains(ReadAnswer(third), "too many connections"));
  CHECK(ReadsEnd(third.get()));
  CHECK(f.watch->connection_count() == 2);

  // Another listener's limit is its own.
  const UniqueFd other = ConnectTo(f.directory.File("inspector"), SOCK_STREAM);
  const UniqueFd other_end = f.adopter.Take();
  CHECK(f.watch->connection_count() == 3);

  first.Reset();
  first_end.Reset();
  REQUIRE(test::Eventually([&] { return f.watch->connection_count() == 2; }));
  const UniqueFd fourth = ConnectTo(f.directory.File("worker"), SOCK_STREAM);
  CHECK(f.adopter.Take().is_valid());
}

TEST_CASE("A process that has its share of connections is turned away, and others come in") {
  Fixture f(/*max_connections=*/100, /*max_process_connections=*/2);
  UniqueFd first = ConnectTo(f.directory.File("worker"), SOCK_STREAM);
  UniqueFd first_end = f.adopter.Take();
  const UniqueFd second = ConnectTo(f.directory.File("worker"), SOCK_STREAM);
  const UniqueFd second_end = f.adopter.Take();
  const UniqueFd third = ConnectTo(f.directory.File("worker"), SOCK_STREAM);
  CHECK(absl::StrContains(ReadAnswer(third), "too many connections of this process"));
  CHECK(ReadsEnd(third.get()));

  // Its share of another listener's is apart, and another process has one of its own.
  const UniqueFd inspecting = ConnectTo(f.directory.File("inspector"), SOCK_STREAM);
  const UniqueFd inspecting_end = f.adopter.Take();
  const pid_t child = ConnectChild(f.directory.File("worker"));
  const UniqueFd child_end = f.adopter.Take();
  CHECK(f.Find(child_end)->process->pid() == child);
  Kill(child);

  first.Reset();
  first_end.Reset();
  REQUIRE(test::Eventually([&] { return f.watch->connection_count() == 3; }));
  const UniqueFd fourth = ConnectTo(f.directory.File("worker"), SOCK_STREAM);
  CHECK(f.adopter.Take().is_valid());
}

TEST_CASE("The connections of a process that is gone are shut down, and only those") {
  Fixture f;
  const UniqueFd client = ConnectTo(f.directory.File("worker"), SOCK_STREAM);
  const UniqueFd end = f.adopter.Take();
  const ProcessId process = f.Find(end)->process->id();
  f.watch->EndConnections(ProcessId{static_cast<uint64_t>(process) + 1});
  char byte = 'x';
  REQUIRE(send(client.get(), &byte, 1, MSG_NOSIGNAL) == 1);
  f.watch->EndConnections(process);
  CHECK(ReadsEnd(client.get()));
}

TEST_CASE("Nobody is accepted after StopAccepting") {
  Fixture f;
  const UniqueFd client = ConnectTo(f.directory.File("worker"), SOCK_STREAM);
  const UniqueFd end = f.adopter.Take();
  f.watch->StopAccepting();
  const UniqueFd late = ConnectTo(f.directory.File("worker"), SOCK_STREAM);
  REQUIRE(late.is_valid());
  f.watch->StopAccepting();
  CHECK(f.watch->connection_count() == 1);
  CHECK(f.Find(end) != nullptr);
}

TEST_CASE("Ten thousand connections leave no descriptor, peer or process behind") {
  Fixture f;
  const size_t before = CountOpenFds();
  for (int i = 0; i < 10'000; ++i) {
    UniqueFd client = ConnectTo(f.directory.File("worker"), SOCK_STREAM);
    REQUIRE(client.is_valid());
    UniqueFd end = f.adopter.Take();
    client.Reset();
    end.Reset();
    if (i % 50 == 49) REQUIRE(f.BecomesEmpty());
  }
  REQUIRE(f.BecomesEmpty());
  CHECK(test::Eventually([&] { return f.peers.size() == 0 && CountOpenFds() == before; }));
}

}  // namespace
}  // namespace kvpool::server
