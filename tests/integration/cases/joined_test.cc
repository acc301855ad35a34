// Several processes of one session, and who vouches for whom.
#include <signal.h>

#include <future>
#include <string>

#include "absl/strings/match.h"

#include "client/options.h"
#include "core/error.h"
#include "tests/integration/support/node.h"
#include "tests/integration/support/region.h"
#include "tests/integration/support/test_device.h"
#include "tests/integration/support/worker.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"

namespace kvpool::test {
namespace {

std::string IdOf(Worker& worker) { return worker.Ask("id").substr(3); }

std::string NoticeCommand(client::Notice::Kind kind) {
  return "notice " + std::to_string(static_cast<int>(kind));
}

TEST_CASE("A joined process that dies leaves its claims, and the session is told") {
  Node node(/*num_blocks=*/8);
  Worker scheduler(node.daemon().worker_socket(), "p", "scheduler");
  Worker runner(node.daemon().worker_socket(), "");
  REQUIRE(runner.Ask("join p " + IdOf(scheduler)) == "ok");
  REQUIRE(runner.Ask("map") == "ok");
  REQUIRE(absl::StartsWith(scheduler.Ask("alloc 3"), "ok "));
  CHECK(node.Pool().sessions() == 2);

  runner.Kill();
  CHECK(scheduler.Ask(NoticeCommand(client::Notice::Kind::kMemberGone)) == "ok");
  CHECK(Eventually([&] { return node.Pool().sessions() == 1; }));
  CHECK(scheduler.Ask("alive") == "ok");
  CHECK(node.Pool().held_blocks() == 3);
  // It is gone for certain, so it claims nothing: what is let go is free.
  CHECK(scheduler.Ask("drop") == "ok");
  CHECK(node.BecomeFree(8));
  CHECK(scheduler.Leave() == "ok");
  node.CheckAllIsBack();
}

TEST_CASE("A joined process whose stream breaks claims what the session holds until it is gone") {
  Node node({.pools_json = OnePool(8), .flags = {"--keepalive=1500ms"}});
  Worker scheduler(node.daemon().worker_socket(), "p", "scheduler");
  Worker runner(node.daemon().worker_socket(), "");
  REQUIRE(runner.Ask("join p " + IdOf(scheduler)) == "ok");
  REQUIRE(absl::StartsWith(scheduler.Ask("alloc 3"), "ok "));

  runner.Tell("stop");
  CHECK(Eventually([&] { return node.eyes().GetBlock("p", 0)->claimed(); }));
  CHECK(scheduler.Ask(NoticeCommand(client::Notice::Kind::kMemberGone)) == "ok");
  CHECK(scheduler.Ask("drop") == "ok");
  CHECK(node.Pool().quarantined_blocks() == 3);
  CHECK(node.Pool().free_blocks() == 5);
  runner.Kill();
  CHECK(node.BecomeFree(8));
  CHECK(scheduler.Leave() == "ok");
  node.CheckAllIsBack();
}

// The scheduler is killed while a process of the session's may still be writing.
TEST_CASE("A dead scheduler's blocks stay quarantined until the process that fills them is gone") {
  Node node(/*num_blocks=*/8);
  Worker scheduler(node.daemon().worker_socket(), "p", "scheduler");
  Worker runner(node.daemon().worker_socket(), "");
  const std::string id = IdOf(scheduler);
  REQUIRE(runner.Ask("join p " + id) == "ok");
  REQUIRE(absl::StartsWith(scheduler.Ask("alloc 3"), "ok "));
  scheduler.Kill();

  REQUIRE(Eventually([&] { return node.Pool().quarantined_blocks() == 3; }));
  const auto client = node.Connect();
  const auto other = *RawSession::Open(*client, {});
  CHECK(other->AllocUpTo(8)->block_ids_size() == 5);
  CHECK(other->Close().ok());

  // What the runner asks too late changes nothing.
  const std::string unknown = "error NOT_FOUND SESSION_UNKNOWN";
  CHECK(Eventually([&] { return absl::StartsWith(runner.Ask("alive"), unknown); }));
  CHECK(absl::StartsWith(runner.Ask("map"), unknown));
  // Of a GPU's memory there is nothing to ask for.
  CHECK(Said(AskForRegion(node.daemon().worker_socket(), id,
                          other->opened().regions(0).region_id())) ==
        (TestDevice().empty() ? "NOT_FOUND SESSION_UNKNOWN" : "FAILED_PRECONDITION"));
  CHECK(node.Pool().quarantined_blocks() == 3);
  CHECK(node.FreeBlocks() == 5);
  node.CheckCounts();
  node.CheckDrainBeside();
  runner.Kill();
  CHECK(node.BecomeFree(8));
  node.CheckAllIsBack();
}

TEST_CASE("Closing a session vouches for who joined it") {
  Node node(/*num_blocks=*/8);
  Worker scheduler(node.daemon().worker_socket(), "p", "scheduler");
  Worker runner(node.daemon().worker_socket(), "");
  REQUIRE(runner.Ask("join p " + IdOf(scheduler)) == "ok");
  REQUIRE(absl::StartsWith(scheduler.Ask("alloc 3"), "ok "));
  CHECK(scheduler.Leave() == "ok");
  CHECK(node.FreeBlocks() == 8);
  CHECK(Eventually([&] { return runner.Ask("alive") != "ok"; }));
  CHECK(runner.Leave() == "ok");
  node.CheckAllIsBack();
}

TEST_CASE("A joined session holds nothing of its own and cannot be joined") {
  Node node(/*num_blocks=*/8);
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  v1::OpenSessionRequest request;
  request.set_join_session_id(session->id());
  const auto joined = *RawSession::Open(*client, request);
  CHECK(Said(joined->Alloc(1)) == "FAILED_PRECONDITION JOINED");
  CHECK(Said(joined->DecRef({})) == "FAILED_PRECONDITION JOINED");
  CHECK(Said(joined->Read({})) == "FAILED_PRECONDITION JOINED");
  request.set_join_session_id(joined->id());
  CHECK_FALSE(RawSession::Open(*client, request).ok());
  CHECK(node.eyes().GetSession(joined->id())->joined_session_id() == session->id().substr(0, 8));
  CHECK(joined->Close().ok());
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A terminated session is told so, and its blocks stay claimed by its process") {
  Node node(/*num_blocks=*/8);
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  REQUIRE(session->Attach().ok());
  REQUIRE(session->Alloc(3).ok());

  SECTION("until it closes the session") {
    REQUIRE(node.eyes().TerminateSession(session->id().substr(0, 8), false).ok());
    const auto notice = session->stream().Next();
    REQUIRE(notice.has_value());
    CHECK(notice->kind() == v1::Notice::KIND_TERMINATED);
    CHECK(Said(session->stream().End()) == "NOT_FOUND SESSION_UNKNOWN");
    CHECK(Said(session->Alloc(1)) == "NOT_FOUND SESSION_UNKNOWN");
    CHECK(node.Pool().quarantined_blocks() == 3);
    CHECK(node.eyes().GetSession(session->id())->state() == v1::SessionStatus::STATE_CLAIMING);
    CHECK(session->Close().ok());
  }
  SECTION("until the operator vouches for it") {
    REQUIRE(node.eyes().TerminateSession(session->id(), false).ok());
    CHECK(node.Pool().quarantined_blocks() == 3);
    REQUIRE(node.eyes().TerminateSession(session->id(), true).ok());
    CHECK(node.FreeBlocks() == 8);
  }
  SECTION("unless the operator vouches at once") {
    REQUIRE(node.eyes().TerminateSession(session->id(), true).ok());
    CHECK(Said(session->stream().End()) == "NOT_FOUND SESSION_UNKNOWN");
    CHECK(node.BecomeFree(8));
  }
  CHECK(node.FreeBlocks() == 8);
  CHECK(Said(session->Close()) == "NOT_FOUND SESSION_UNKNOWN");
  session->Detach();
  node.CheckAllIsBack();
}

TEST_CASE("A pool is deleted only when who was given its memory has closed or gone") {
  Node node({.pools_json = "[" + PoolJson("p", 8) + ", " + PoolJson("q", 8) + "]"});
  const std::string in_use = "FAILED_PRECONDITION IN_USE";
  Worker worker(node.daemon().worker_socket(), "q");
  REQUIRE(worker.Ask("map") == "ok");
  const std::string id = worker.Ask("id").substr(3);
  CHECK(Said(node.eyes().DeletePool("q")) == in_use);

  SECTION("closed") { CHECK(worker.Leave() == "ok"); }
  SECTION("gone") {
    worker.Kill();
    REQUIRE(Eventually([&] { return node.Pool("q").sessions() == 0; }));
  }
  SECTION("terminated, and vouched for by the operator") {
    REQUIRE(node.eyes().TerminateSession(id, false).ok());
    CHECK(Said(node.eyes().DeletePool("q")) == in_use);
    REQUIRE(node.eyes().TerminateSession(id, true).ok());
    CHECK(Eventually([&] { return node.eyes().DeletePool("q").ok(); }));
    REQUIRE(node.eyes().CreatePool(PoolJson("q", 8)).ok());
    worker.Kill();
  }
  SECTION("terminated with nothing held, then gone") {
    REQUIRE(node.eyes().TerminateSession(id, false).ok());
    CHECK(Said(node.eyes().DeletePool("q")) == in_use);
    worker.Kill();
    REQUIRE(Eventually([&] { return node.Pool("q").sessions() == 0; }));
  }
  CHECK(Eventually([&] { return node.eyes().DeletePool("q").ok(); }));
  CHECK(Said(node.eyes().DeletePool("q")) == "NOT_FOUND");
  CHECK(Said(node.eyes().GetPool("q")) == "NOT_FOUND");
  CHECK(Said(node.eyes().CreatePool(PoolJson("q", 4))) == "OK");
  CHECK(node.Pool("q").free_blocks() == 4);
  node.CheckAllIsBack();
}

}  // namespace
}  // namespace kvpool::test
