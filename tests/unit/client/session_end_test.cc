// How a session notices its end, and how fast it closes when the daemon is dead.
#include <sys/wait.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <future>
#include <mutex>
#include <vector>

#include "client/session.h"
#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/unit/client/fixture.h"

namespace kvpool::client {
namespace {

// Collects a session's notices.
class Notices {
 public:
  std::function<void(const Notice&)> Callback() {
    return [this](const Notice& notice) {
      const std::lock_guard lock(mutex_);
      notices_.push_back(notice);
      changed_.notify_all();
    };
  }

  // Waits for the first notice of `kind`.
  Notice Wait(Notice::Kind kind) {
    std::unique_lock lock(mutex_);
    while (true) {
      for (const Notice& notice : notices_) {
        if (notice.kind == kind) return notice;
      }
      changed_.wait(lock);
    }
  }
  size_t Count(Notice::Kind kind) {
    const std::lock_guard lock(mutex_);
    size_t count = 0;
    for (const Notice& notice : notices_) count += notice.kind == kind ? 1 : 0;
    return count;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Notice> notices_;
};

// A fake daemon in a process of its own.
struct Process {
  test::TempDir directory;
  test::ChildProcess child{{.arguments = {KVPOOL_FAKE_DAEMON, directory.path().string()},
                            .environment = {},
                            .stderr_path = "",
                            .uid = std::nullopt}};
  bool is_ready = child.ReadLine() == "ready";
  Client client = Client::Create({.socket = "unix:" + directory.File("kvpool.sock")}).value();
};

bool IsSessionUnknown(const absl::Status& status) {
  return absl::IsNotFound(status) && GetErrorDetail(status).reason == Reason::kSessionUnknown;
}

// How long `work` takes.
std::chrono::milliseconds TimeOf(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               start);
}

TEST_CASE("Notices come to the session's callback as they are sent") {
  Fixture fixture;
  Notices notices;
  const auto session = fixture.Open({.on_notice = notices.Callback()});
  v1::Notice draining;
  draining.set_kind(v1::Notice::KIND_DRAINING);
  draining.mutable_deadline()->set_seconds(30);
  fixture.daemon.Notify(draining);
  CHECK(notices.Wait(Notice::Kind::kDraining).deadline == std::chrono::seconds(30));
  v1::Notice gone;
  gone.set_kind(v1::Notice::KIND_MEMBER_GONE);
  gone.set_message("worker-3");
  fixture.daemon.Notify(gone);
  CHECK(notices.Wait(Notice::Kind::kMemberGone).message == "worker-3");
  CHECK(session->alive());
}

TEST_CASE("A session that an operator ends is told, and every call after is SESSION_UNKNOWN") {
  Fixture fixture;
  Notices notices;
  const auto session = fixture.Open({.on_notice = notices.Callback()});
  const auto leases = session->Alloc(1);
  REQUIRE(leases.ok());
  v1::Notice terminated;
  terminated.set_kind(v1::Notice::KIND_TERMINATED);
  fixture.daemon.Notify(terminated);
  fixture.daemon.EndStreams(
      MakeError(absl::StatusCode::kNotFound, {.reason = Reason::kSessionUnknown}, "terminated"));
  notices.Wait(Notice::Kind::kTerminated);
  notices.Wait(Notice::Kind::kLost);

  CHECK_FALSE(session->alive());
  CHECK(IsSessionUnknown(session->status()));
  CHECK(IsSessionUnknown(session->Alloc(1).status()));
  CHECK(IsSessionUnknown(session->IncRef(Refs(*leases)).status()));
  CHECK(IsSessionUnknown(session->FillBlocks(Refs(*leases), Fill::kZero)));
  CHECK(IsSessionUnknown(session->CopyBlocks({}, {})));
  CHECK(IsSessionUnknown(session->WriteBlocks({})));
  CHECK(IsSessionUnknown(
      session->ReadBlocks({}, {}, 0, [](const BlockPiece&) { return absl::OkStatus(); })));
  CHECK(IsSessionUnknown(session->Map().status()));
  CHECK(IsSessionUnknown(session->Flush()));
  // It vouches, and NOT_FOUND is done.
  CHECK(session->Close().ok());
  CHECK(fixture.daemon.CallCount("CloseSession") == 1);
  CHECK(notices.Count(Notice::Kind::kLost) == 1);
}

TEST_CASE("A session is lost once a call says that it is unknown") {
  Fixture fixture;
  Notices notices;
  const auto session = fixture.Open({.on_notice = notices.Callback()});
  fixture.daemon.RefuseNext("Alloc", MakeError(absl::StatusCode::kNotFound,
                                               {.reason = Reason::kSessionUnknown}, "no session"));
  CHECK(IsSessionUnknown(session->Alloc(1).status()));
  CHECK_FALSE(session->alive());
  notices.Wait(Notice::Kind::kLost);
}

TEST_CASE("A session that its owner closes is not called lost") {
  Fixture fixture;
  Notices notices;
  const auto session = fixture.Open({.on_notice = notices.Callback()});
  CHECK(session->Close().ok());
  CHECK(notices.Count(Notice::Kind::kLost) == 0);
}

TEST_CASE("A call under way when the session ends returns SESSION_UNKNOWN") {
  Fixture fixture;
  const auto session = fixture.Open();
  fixture.daemon.HoldNext("Alloc");
  auto alloc = std::async(std::launch::async, [&] { return session->Alloc(1).status(); });
  fixture.daemon.WaitUntilHeld();
  SECTION("by the daemon") { fixture.daemon.EndStreams(absl::UnavailableError("going")); }
  SECTION("by closing it") { CHECK(session->Close().ok()); }
  CHECK(IsSessionUnknown(alloc.get()));
  fixture.daemon.Resume();
}

TEST_CASE("A daemon that is killed ends the session, and closing takes no second") {
  Process daemon;
  REQUIRE(daemon.is_ready);
  Notices notices;
  auto session = daemon.client.OpenSession({.pool = "p", .on_notice = notices.Callback()});
  REQUIRE(session.ok());
  auto leases = (*session)->Alloc(4);
  REQUIRE(leases.ok());
  daemon.child.Kill();
  SECTION("as soon as it is dead") {}
  SECTION("once that is known") {
    notices.Wait(Notice::Kind::kLost);
    CHECK_FALSE((*session)->alive());
    CHECK(IsSessionUnknown((*session)->Alloc(1).status()));
  }
  SECTION("with releases on their way") { leases->clear(); }
  absl::Status closed;
  CHECK(TimeOf([&] { closed = (*session)->Close(); }) < std::chrono::seconds(1));
  CHECK(absl::IsUnavailable(closed));
  CHECK_FALSE((*session)->alive());
}

TEST_CASE("A daemon that hangs does not keep closing for more than a second") {
  Process daemon;
  REQUIRE(daemon.is_ready);
  auto session = daemon.client.OpenSession({.pool = "p"});
  REQUIRE(session.ok());
  auto leases = (*session)->Alloc(4);
  REQUIRE(leases.ok());
  daemon.child.Signal(SIGSTOP);
  // The signal takes its time: only a stopped daemon is silent.
  siginfo_t info{};
  REQUIRE(waitid(P_PID, static_cast<id_t>(daemon.child.pid()), &info, WSTOPPED | WNOWAIT) == 0);
  leases->clear();
  absl::Status closed;
  CHECK(TimeOf([&] { closed = (*session)->Close(); }) < std::chrono::seconds(1));
  CAPTURE(closed.ToString());
  CHECK(absl::IsDeadlineExceeded(closed));
}

TEST_CASE("A client finds a daemon that comes back, and opens a new session") {
  test::TempDir directory;
  auto daemon = std::make_unique<test::FakeDaemon>(directory.path().string());
  auto client = Client::Create({.socket = daemon->socket()});
  REQUIRE(client.ok());
  const auto first = client->OpenSession({.pool = "p"});
  REQUIRE(first.ok());
  daemon.reset();
  std::filesystem::remove(directory.File("kvpool.sock.fd"));
  daemon = std::make_unique<test::FakeDaemon>(directory.path().string());
  const auto second = client->OpenSession({.pool = "p"});
  REQUIRE(second.ok());
  CHECK((*second)->Alloc(8).ok());
  CHECK_FALSE((*first)->alive());
}

}  // namespace
}  // namespace kvpool::client
