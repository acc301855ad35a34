#include "client/kept_session.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <string>
#include <vector>

#include "absl/strings/match.h"

#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"
#include "tests/unit/client/kept_fixture.h"

namespace kvpool::client {
namespace {

TEST_CASE("A kept session is a session and its memory until it is closed") {
  KeptFixture fixture;
  const auto mapped = fixture.Wait();
  CHECK(fixture.kept->Current().value() == mapped);
  const auto leases = mapped->session().Alloc(1);
  REQUIRE(leases.ok());
  mapped->mapping().mutable_bytes()[0] = std::byte{42};
  CHECK(fixture.daemon->memory()[0] == std::byte{42});

  CHECK(fixture.kept->Close().ok());
  CHECK(fixture.kept->Close().ok());
  CHECK(IsSessionUnknown(fixture.kept->Current(KeptFixture::kPatience).status()));
  CHECK(IsSessionUnknown(mapped->session().Alloc(1).status()));
  CHECK(fixture.daemon->SessionCount() == 0);
  CHECK(fixture.daemon->CallCount("CloseSession") == 1);
  CHECK(fixture.changes.count() == 0);
}

TEST_CASE("A kept session maps the shards that it is told, as it is told") {
  KeptFixture fixture({.shards = {0}, .access = Mapping::Access::kReadOnly});
  CHECK(fixture.Wait()->mapping().access() == Mapping::Access::kReadOnly);
  KeptFixture bare({.shards = {}});
  CHECK(bare.Wait()->session().Alloc(1).ok());
  CHECK(bare.daemon->RequestedRegions().empty());
}

TEST_CASE("A kept session that cannot be opened or mapped, or that joins, is refused at once") {
  test::TempDir directory;
  test::FakeDaemon daemon(directory.path().string());
  auto client = Client::Create({.socket = daemon.socket(), .retry = QuickRetry()}).value();
  CHECK(absl::IsNotFound(client.KeepSession({.session = {.pool = "q"}}).status()));
  CHECK(absl::IsInvalidArgument(
      client.KeepSession({.session = {.pool = "p"}, .shards = {5}}).status()));
  CHECK(absl::IsInvalidArgument(
      client.KeepSession({.session = {.pool = "p", .join = SessionId{}}}).status()));
  CHECK(daemon.SessionCount() == 0);
}

TEST_CASE("A kept session that is lost is opened and mapped anew, and its user is told once") {
  std::atomic<int> lost_notices = 0;
  std::atomic<int> release_failures = 0;
  KeptFixture fixture(
      {.session = {.on_notice =
                       [&](const Notice& notice) {
                         if (notice.kind == Notice::Kind::kLost) ++lost_notices;
                       },
                   .on_release_failure = [&](auto, const auto&) { ++release_failures; }}});
  auto old = fixture.Wait();
  auto leases = old->session().Alloc(4);
  REQUIRE(leases.ok());
  fixture.Lose();

  CHECK(IsSessionUnknown(fixture.changes.Lost()));
  CHECK(absl::StrContains(fixture.changes.Lost().message(), "no answer to pings"));
  CHECK(fixture.changes.Now().ok());
  const auto mapped = fixture.Wait();
  CHECK(mapped != old);
  CHECK(mapped->session().id() != old->session().id());
  CHECK(mapped->session().Alloc(8).ok());
  CHECK(fixture.daemon->RequestedRegions().size() == 2);
  // The old memory stays where it is for who holds it, and the old leases are empty names.
  old->mapping().mutable_bytes()[0] = std::byte{1};
  CHECK(old->mapping().bytes().data() != mapped->mapping().bytes().data());
  leases->clear();
  CHECK(IsSessionUnknown(old->session().Flush()));
  old.reset();

  CHECK(fixture.daemon->SessionCount() == 1);
  CHECK(fixture.changes.count() == 1);
  CHECK(lost_notices == 1);
  CHECK(release_failures == 0);
}

TEST_CASE("A kept session finds the daemon that was started anew, and its memory") {
  KeptFixture fixture;
  fixture.Kill();
  CHECK(absl::IsUnavailable(fixture.kept->Current(std::chrono::milliseconds(5)).status()));
  fixture.Start();
  const auto mapped = fixture.Wait();
  mapped->mapping().mutable_bytes()[0] = std::byte{42};
  CHECK(fixture.daemon->memory()[0] == std::byte{42});
  CHECK(fixture.daemon->SessionCount() == 1);
  CHECK(fixture.changes.count() == 1);
  // It insists on the layout that it had.
  CHECK(fixture.daemon->LastOpen().expected_fingerprint() ==
        mapped->session().layout().fingerprint);
}

TEST_CASE("A kept session's user is told of a loss before there is a new session to take") {
  KeptSession* kept = nullptr;
  std::promise<absl::Status> current;
  std::promise<absl::Status> used;
  KeptFixture fixture({.on_change = [&](const SessionChange& change) {
    current.set_value(kept->Current().status());
    used.set_value((*change.now)->session().Alloc(1).status());
  }});
  kept = fixture.kept.get();
  fixture.Lose();
  CHECK(absl::IsUnavailable(current.get_future().get()));
  CHECK(used.get_future().get().ok());
  CHECK(fixture.Wait()->session().alive());
}

TEST_CASE("A session that is lost while its user is told of the last loss is told of next") {
  KeptFixture* scene = nullptr;
  std::atomic<int> count = 0;
  std::vector<std::shared_ptr<MappedSession>> seen;
  KeptFixture fixture({.on_change = [&](const SessionChange& change) {
    seen.push_back(*change.now);
    if (++count > 1) return;
    scene->Lose();
    KVPOOL_CHECK(test::Eventually([&] { return !seen[0]->session().alive(); }));
  }});
  scene = &fixture;
  fixture.Lose();
  CHECK(test::Eventually([&] { return count == 2; }));
  const auto mapped = fixture.Wait();
  REQUIRE(seen.size() == 2);
  CHECK(seen[1] == mapped);
  CHECK(fixture.daemon->SessionCount() == 1);
  CHECK(fixture.kept->Close().ok());
  CHECK(count == 2);
}

TEST_CASE("A daemon that drains keeps a kept session until its end") {
  std::promise<void> draining;
  KeptFixture fixture({.session = {.on_notice = [&](const Notice& notice) {
                         if (notice.kind == Notice::Kind::kDraining) draining.set_value();
                       }}});
  const auto old = fixture.Wait();
  v1::Notice notice;
  notice.set_kind(v1::Notice::KIND_DRAINING);
  fixture.daemon->Notify(notice);
  draining.get_future().get();
  CHECK(fixture.Wait() == old);
  CHECK(old->session().Alloc(1).ok());

  const absl::Status drained =
      MakeError(absl::StatusCode::kUnavailable, {.reason = Reason::kDraining}, "draining");
  fixture.daemon->RefuseNext("OpenSession", drained);
  fixture.daemon->EndStreams(drained);
  CHECK(fixture.changes.Now().ok());
  CHECK(fixture.Wait() != old);
  CHECK(fixture.daemon->CallCount("OpenSession") == 3);
}

TEST_CASE("A session of a kept session's that its user closes is replaced when it is asked for") {
  KeptFixture fixture;
  const auto old = fixture.Wait();
  CHECK(old->session().Close().ok());
  CHECK(absl::IsUnavailable(fixture.kept->Current().status()));
  CHECK(fixture.Wait() != old);
  CHECK(fixture.changes.count() == 1);
}

TEST_CASE("A mapping that fails is tried again in a new session, and the other is closed") {
  KeptFixture fixture;
  fixture.daemon->set_fd_answer(test::FakeFdSocket::Answer::kNoFd);
  fixture.Lose();
  REQUIRE(test::Eventually([&] { return fixture.daemon->CallCount("OpenSession") > 2; }));
  CHECK(absl::IsUnavailable(fixture.kept->Current().status()));
  fixture.daemon->set_fd_answer(test::FakeFdSocket::Answer::kRight);
  fixture.Wait();
  CHECK(fixture.daemon->SessionCount() == 1);
  CHECK(fixture.changes.count() == 1);
}

}  // namespace
}  // namespace kvpool::client
