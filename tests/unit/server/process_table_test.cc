#include "server/process_table.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <vector>

#include "server/listener.h"
#include "server/peer_identity.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/server/connected_child.h"
#include "tests/unit/server/socket_client.h"

namespace kvpool::server {
namespace {

// What a table tells.
class Gone {
 public:
  ProcessTable::OnGone Callback() {
    return [this](ProcessId id) {
      const std::lock_guard lock(mutex_);
      ids_.push_back(id);
      changed_.notify_all();
    };
  }
  // The first `count` that were told, once there are so many.
  std::vector<ProcessId> Wait(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(30), [&] { return ids_.size() >= count; });
    return ids_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ProcessId> ids_;
};

// A socket to connect to, and its accepting end.
class Meeting {
 public:
  Meeting() : listener_(*SocketFile::Bind(directory_.File("s"), SOCK_STREAM, 0600, std::nullopt)) {}

  std::string path() const { return directory_.File("s"); }
  // The next connection's near end. Waits for it.
  UniqueFd Accept() const {
    UniqueFd fd;
    REQUIRE(test::Eventually([&] {
      fd = UniqueFd(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
      return fd.is_valid();
    }));
    return fd;
  }

 private:
  test::TempDir directory_;
  SocketFile listener_;
};

std::unique_ptr<ProcessTable> MakeTable(Gone& gone, bool use_pidfd = true,
                                        Duration delay = Duration::zero()) {
  auto table = ProcessTable::Create(delay, use_pidfd, gone.Callback());
  REQUIRE(table.ok());
  return *std::move(table);
}

TEST_CASE("Two connections of one process lead to one Process, another's to another") {
  const Meeting meeting;
  Gone gone;
  const auto table = MakeTable(gone);
  const UniqueFd first = ConnectTo(meeting.path(), SOCK_STREAM);
  const UniqueFd first_end = meeting.Accept();
  const UniqueFd second = ConnectTo(meeting.path(), SOCK_STREAM);
  const UniqueFd second_end = meeting.Accept();
  const pid_t child = ConnectChild(meeting.path());
  const UniqueFd child_end = meeting.Accept();

  const auto one = table->FromSocket(first_end.get());
  const auto two = table->FromSocket(second_end.get());
  const auto other = table->FromSocket(child_end.get());
  REQUIRE(one.ok());
  REQUIRE(two.ok());
  REQUIRE(other.ok());
  CHECK(*one == *two);
  CHECK((*one)->pid() == getpid());
  CHECK((*one)->uid() == geteuid());
  CHECK(*one != *other);
  CHECK((*other)->pid() == child);
  CHECK_FALSE((*other)->is_gone());
  Kill(child);
}

TEST_CASE("A killed process is told once, and is gone before it is told") {
  const Meeting meeting;
  Gone gone;
  const auto table = MakeTable(gone);
  const pid_t child = ConnectChild(meeting.path());
  const UniqueFd end = meeting.Accept();
  const auto process = table->FromSocket(end.get());
  REQUIRE(process.ok());
  CHECK((*process)->proof() == ReclaimProof::kPidfd);
  CHECK(table->weakest_proof() == ReclaimProof::kPidfd);
  table->ConnectionOpened(**process);
  Kill(child);
  CHECK(gone.Wait(1) == std::vector{(*process)->id()});
  CHECK((*process)->is_gone());
  table->ConnectionClosed(**process);

  const pid_t second_child = ConnectChild(meeting.path());
  const UniqueFd second_end = meeting.Accept();
  const auto second = table->FromSocket(second_end.get());
  REQUIRE(second.ok());
  Kill(second_child);
  CHECK(gone.Wait(2) == std::vector{(*process)->id(), (*second)->id()});
}

TEST_CASE("A process is gone when it ends, though a child of its own keeps the socket open") {
  const Meeting meeting;
  Gone gone;
  const auto table = MakeTable(gone);
  std::array<int, 2> hold{};
  REQUIRE(pipe2(hold.data(), O_CLOEXEC) == 0);
  UniqueFd let_go(hold[1]);
  const pid_t child = ConnectChild(meeting.path(), [&] {
    if (fork() == 0) {  // Lives, with the socket, until the test closes its end of the pipe.
      close(hold[1]);
      char byte = 0;
      while (read(hold[0], &byte, 1) > 0) continue;
      _exit(0);
    }
  });
  close(hold[0]);
  const UniqueFd end = meeting.Accept();
  const auto process = table->FromSocket(end.get());
  REQUIRE(process.ok());
  Kill(child);
  CHECK(gone.Wait(1) == std::vector{(*process)->id()});
  let_go.Reset();
}

TEST_CASE("A process that ended before it was looked at is refused, or told at once") {
  const Meeting meeting;
  Gone gone;
  const auto table = MakeTable(gone);
  const pid_t child = fork();
  if (child == 0) {
    const UniqueFd fd = ConnectTo(meeting.path(), SOCK_STREAM);
    _exit(0);
  }
  REQUIRE(waitpid(child, nullptr, 0) == child);
  const UniqueFd end = meeting.Accept();
  const auto process = table->FromSocket(end.get());
  if (process.ok()) {  // Kernels from 6.16 on keep what is left of it.
    CHECK(gone.Wait(1) == std::vector{(*process)->id()});
  } else {
    CHECK(absl::IsNotFound(process.status()));
  }
}

TEST_CASE("Without pidfds a process is gone some time after its last connection closed") {
  const Meeting meeting;
  Gone gone;
  const auto table = MakeTable(gone, /*use_pidfd=*/false);
  const UniqueFd fd = ConnectTo(meeting.path(), SOCK_STREAM);
  const UniqueFd end = meeting.Accept();
  const auto process = table->FromSocket(end.get());
  REQUIRE(process.ok());
  CHECK((*process)->proof() == ReclaimProof::kDelay);
  CHECK(table->weakest_proof() == ReclaimProof::kDelay);
  table->ConnectionOpened(**process);
  table->ConnectionOpened(**process);
  table->ConnectionClosed(**process);
  CHECK_FALSE((*process)->is_gone());
  table->ConnectionClosed(**process);
  CHECK(gone.Wait(1) == std::vector{(*process)->id()});

  // Once gone it is gone for good: the same process that connects again is another to us.
  const auto again = table->FromSocket(end.get());
  REQUIRE(again.ok());
  CHECK((*again)->id() != (*process)->id());
}

TEST_CASE("Without pidfds a new connection in time keeps a process") {
  const Meeting meeting;
  Gone gone;
  const auto table = MakeTable(gone, /*use_pidfd=*/false, std::chrono::hours(1));
  const UniqueFd fd = ConnectTo(meeting.path(), SOCK_STREAM);
  const UniqueFd end = meeting.Accept();
  std::shared_ptr<const Process> process;
  // The pid alone proves nothing while the process is very young.
  REQUIRE(test::Eventually([&] {
    process = *table->FromSocket(end.get());
    return *table->FromSocket(end.get()) == process;
  }));
  table->ConnectionOpened(*process);
  table->ConnectionClosed(*process);
  CHECK(*table->FromSocket(end.get()) == process);
  CHECK_FALSE(process->is_gone());
}

TEST_CASE("A process that nobody holds is forgotten, and its descriptor closed") {
  const Meeting meeting;
  Gone gone;
  const auto table = MakeTable(gone);
  const UniqueFd fd = ConnectTo(meeting.path(), SOCK_STREAM);
  const UniqueFd end = meeting.Accept();
  const size_t before = CountOpenFds();
  std::vector<ProcessId> ids;
  for (int i = 0; i < 1000; ++i) {
    const auto process = table->FromSocket(end.get());
    REQUIRE(process.ok());
    ids.push_back((*process)->id());
  }
  CHECK(CountOpenFds() == before);
  CHECK(ids.front() != ids.back());
}

TEST_CASE("A process may outlive its table") {
  const Meeting meeting;
  Gone gone;
  auto table = MakeTable(gone);
  const UniqueFd fd = ConnectTo(meeting.path(), SOCK_STREAM);
  const UniqueFd end = meeting.Accept();
  std::shared_ptr<const Process> process = *table->FromSocket(end.get());
  table.reset();
  CHECK(process->pid() == getpid());
  process.reset();
}

TEST_CASE("A pidfd is had of the pid where the socket gives none") {
  const Meeting meeting;
  const UniqueFd fd = ConnectTo(meeting.path(), SOCK_STREAM);
  const UniqueFd end = meeting.Accept();
  // Not before the process is so old that its pid cannot have been another's a moment ago.
  CHECK(test::Eventually([&] {
    const auto peer = IdentifyPeer(end.get(), PidfdSource::kPid);
    return peer.ok() && peer->pidfd.is_valid() && peer->key.has_value();
  }));
  const auto peer = IdentifyPeer(end.get(), PidfdSource::kNone);
  REQUIRE(peer.ok());
  CHECK_FALSE(peer->pidfd.is_valid());
  REQUIRE(peer->key.has_value());
  CHECK(peer->key->kind == ProcessKey::Kind::kStartTime);
}

TEST_CASE("A pid whose process is gone gives no pidfd") {
  const Meeting meeting;
  const pid_t child = ConnectChild(meeting.path());
  const UniqueFd end = meeting.Accept();
  Kill(child);
  CHECK(absl::IsNotFound(IdentifyPeer(end.get(), PidfdSource::kPid).status()));
  const auto peer = IdentifyPeer(end.get(), PidfdSource::kNone);
  REQUIRE(peer.ok());
  CHECK(peer->pid == child);
  CHECK_FALSE(peer->key.has_value());
}

}  // namespace
}  // namespace kvpool::server
