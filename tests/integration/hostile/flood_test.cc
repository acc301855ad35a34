// More calls, streams, sessions and waits than anybody needs, most of them wrong.
#include <string>

#include "absl/strings/str_cat.h"

#include "tests/integration/hostile/hostile.h"
#include "tests/integration/hostile/scene.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"

namespace kvpool::test {
namespace {

// LedgerLimits: of one pool.
constexpr uint32_t kMaxProcessSessions = 2'048;
constexpr uint32_t kMaxWaits = 16'384;

// gRPC's own start as the load asks for; a call is to have none.
constexpr size_t kThreadSlack = 16;

TEST_CASE("Twenty thousand wrong calls are twenty thousand errors and nothing else") {
  Scene scene;
  Hostile hostile(scene.socket());
  hostile.AskFor("open p");
  const std::string said =
      scene.AskMeanwhile(hostile, absl::StrCat("bad ", UnlessSanitized(20'000, 4'000)));
  CHECK(said.rfind("ok ", 0) == 0);
  CAPTURE(said);
  for (const std::string kind :
       {"INVALID_ARGUMENT=", "NOT_FOUND SESSION_UNKNOWN=", "FAILED_PRECONDITION NOT_HELD="}) {
    CAPTURE(kind);
    CHECK(said.find(kind) != std::string::npos);
  }
  scene.Check();
  hostile.process().Kill();
  scene.CheckLast();
}

TEST_CASE("Thousands of streams that are broken off leave nothing, and end no other") {
  Scene scene;
  Hostile hostile(scene.socket());
  hostile.AskFor("open p");
  CHECK(scene.StopsGrowing([&] {
    CHECK(scene.AskMeanwhile(hostile, absl::StrCat("streams ", UnlessSanitized(3'000, 1'200))) ==
          "ok");
  }));
  CHECK(hostile.Ask("alloc 1") == "ok");
  scene.Check();
  hostile.process().Kill();
  scene.CheckLast();
}

TEST_CASE("Lists and messages of the longest kind and one more are refused for what they hold") {
  Scene scene;
  Hostile hostile(scene.socket());
  hostile.AskFor("open p");
  CHECK(hostile.Ask("oversize") == "ok");
  CHECK(hostile.Ask("alloc 1") == "ok");
  scene.Check();
  hostile.process().Kill();
  scene.CheckLast();
}

TEST_CASE("A worker that opens all the sessions that it may have leaves others theirs") {
  Scene scene;
  Hostile hostile(scene.socket());
  CHECK(scene.AskMeanwhile(hostile, absl::StrCat("sessions ", kMaxProcessSessions + 100)) ==
        "ok refused=100 RESOURCE_EXHAUSTED LIMIT=100");
  // The witness's own is one more.
  CHECK(scene.node().Pool().sessions() == kMaxProcessSessions + 1);
  scene.Check();
  RawClient* const client = scene.node().Connect();
  const auto other = RawSession::Open(*client, {});
  REQUIRE(Said(other) == "OK");
  CHECK(Said((*other)->Close()) == "OK");

  CHECK(scene.AskMeanwhile(hostile, "close-sessions") == "ok");
  hostile.process().Kill();
  CHECK(scene.StopsGrowing([&] {
    Hostile next(scene.socket());
    CHECK(scene.AskMeanwhile(next, "sessions 2000") == "ok refused=0 ");
    CHECK(scene.AskMeanwhile(next, "close-sessions") == "ok");
  }));
  scene.CheckLast();
}

TEST_CASE("A worker that waits as often as may be keeps nobody from what was promised to them") {
  Scene scene;
  Hostile hostile(scene.socket());
  hostile.AskFor("open p");
  REQUIRE(hostile.Ask(absl::StrCat("alloc ", Scene::kBlocks - Witness::kGuaranteed)) == "ok");
  const size_t threads_before = scene.node().daemon().CountThreads();
  CHECK(scene.AskMeanwhile(hostile, absl::StrCat("waits ", kMaxWaits + 100, " 100")) ==
        "ok RESOURCE_EXHAUSTED LIMIT=100");
  CHECK(scene.node().Pool().waiting_calls() == kMaxWaits);
  CHECK(scene.node().daemon().CountThreads() <= threads_before + kThreadSlack);
  scene.Check();
  hostile.process().Kill();
  REQUIRE(scene.BecomeQuiet());
  // malloc keeps what so many at once took. HeldStreams has fewer, time and again.
  scene.node().CountMemoryAgain();
  scene.CheckLast();
}

}  // namespace
}  // namespace kvpool::test
