// Workers that end, stop or stay half-way in ways that are meant to keep something.
#include <signal.h>

#include <string>

#include "tests/integration/hostile/hostile.h"
#include "tests/integration/hostile/scene.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"

namespace kvpool::test {
namespace {

constexpr uint32_t kFree = Scene::kBlocks - Witness::kHeld;

TEST_CASE("A worker that dies ends its session although its child keeps socket and mapping") {
  Scene scene;
  Hostile hostile(scene.socket());
  hostile.AskFor("open p");
  REQUIRE(hostile.Ask("map") == "ok");
  REQUIRE(hostile.Ask("alloc 20") == "ok");
  const pid_t child = std::stoi(hostile.AskFor("fork"));
  REQUIRE(scene.node().Pool().free_blocks() == kFree - 20);
  hostile.Tell("die");
  CHECK(hostile.process().Wait() == 1);
  CHECK(scene.BecomeQuiet());
  CHECK(kill(child, 0) == 0);
  scene.Check();
  REQUIRE(kill(child, SIGKILL) == 0);
  scene.CheckLast();
}

TEST_CASE("A session that a helper opened lives by its ttl, or by the stream of who took it over") {
  Scene scene;
  Hostile hostile(scene.socket());

  SECTION("nobody attaches it: its blocks are free as soon as it has expired") {
    hostile.AskFor("open-by-helper p 1");
    // An error where the second is over by now.
    hostile.Ask("alloc 20");
    CHECK(scene.BecomeQuiet());
    CHECK(hostile.Ask("alloc 1").rfind("error NOT_FOUND SESSION_UNKNOWN", 0) == 0);
  }
  SECTION("another attaches it: it ends with that one") {
    hostile.AskFor("open-by-helper p 3600");
    REQUIRE(hostile.Ask("alloc 20") == "ok");
    REQUIRE(hostile.Ask("attach") == "ok");
    scene.Check();
    hostile.process().Kill();
    CHECK(scene.BecomeQuiet());
  }
  scene.Check();
  hostile.process().Kill();
  scene.CheckLast();
}

TEST_CASE("A worker that stops itself loses its session, and its claims stay until it is gone") {
  Scene scene({"--keepalive=3s"});
  Hostile hostile(scene.socket());
  hostile.AskFor("open p");
  REQUIRE(hostile.Ask("map") == "ok");
  REQUIRE(hostile.Ask("alloc 20") == "ok");
  hostile.Tell("stop");
  REQUIRE(Eventually([&] { return scene.node().Pool().quarantined_blocks() == 20; }));
  CHECK(scene.node().Pool().sessions() == 1);
  scene.Check();
  CHECK(scene.node().Pool().quarantined_blocks() == 20);
  hostile.process().Kill();
  CHECK(scene.BecomeQuiet());
  scene.CheckLast();
}

TEST_CASE("Connections that stay silent or half-way are ended, while their process lives") {
  Scene scene({"--keepalive=3s"});
  Hostile hostile(scene.socket());
  CHECK(hostile.Ask("connect silent 100") == "ok");
  CHECK(hostile.Ask("connect half 100") == "ok");
  CHECK(hostile.Ask("connect settings 100") == "ok");
  // More than may be silent at once: those are ended at once, the others after 10 s.
  CHECK(hostile.Ask("connect fd 300") == "ok");
  scene.Check();
  CHECK(scene.AskMeanwhile(hostile, "await-end") == "ok");
  // The sockets serve again.
  hostile.AskFor("open p");
  CHECK(hostile.Ask("map") == "ok");
  hostile.process().Kill();
  scene.CheckLast();
}

TEST_CASE("A process that takes more connections than it may have is turned away, others are not") {
  Scene scene;
  Hostile hostile(scene.socket());
  REQUIRE(hostile.Ask("connect silent 2300") == "ok");
  scene.Check();
  CHECK(scene.node().daemon().Log().find("too many connections of this process") !=
        std::string::npos);
  // Not even one that knows nothing of the daemon yet.
  Hostile next(scene.socket());
  CHECK(next.Ask("open p").rfind("ok ", 0) == 0);
  hostile.process().Kill();
  next.process().Kill();
  scene.CheckLast();
}

}  // namespace
}  // namespace kvpool::test
