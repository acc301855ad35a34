// Any bytes on the sockets: an answer or an end, never a crash. To replay a failure, set
// KVPOOL_TEST_SEED to the seed that it prints.
#include <string>

#include "absl/strings/str_cat.h"

#include "tests/integration/hostile/hostile.h"
#include "tests/integration/hostile/random_calls.h"
#include "tests/integration/hostile/scene.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool::test {
namespace {

TEST_CASE("Bytes that are no calls end their connection at most") {
  const uint64_t seed = Seed();
  CAPTURE(seed);
  Scene scene;
  Hostile hostile(scene.socket());
  for (const std::string way : {"garbage", "frames", "truncated", "recorded"}) {
    CAPTURE(way);
    CHECK(scene.AskMeanwhile(hostile, absl::StrCat("bytes ", way, " ", seed, " ",
                                                   UnlessSanitized(400, 150))) == "ok");
    scene.Check();
  }
  hostile.process().Kill();
  scene.CheckLast();
}

// Headers without their end, floods of each frame, windows that stay shut, and the like
// (half_open.h), none of which answers the daemon's pings.
TEST_CASE("Connections that begin in every wrong way are ended, and others work meanwhile") {
  Scene scene({"--keepalive=3s"});
  Hostile hostile(scene.socket());
  for (int round = 0; round < 2; ++round) {
    // malloc keeps what so many at once took, and gRPC its threads. The second round takes no more.
    if (round > 0) scene.node().CountMemoryAgain();
    CHECK(scene.AskMeanwhile(hostile, "half-open 2") == "ok");
    scene.Check();
    CHECK(scene.AskMeanwhile(hostile, "await-end") == "ok");
  }
  // Nor is the process that did so turned away.
  hostile.AskFor("open p");
  CHECK(hostile.Ask("alloc 1") == "ok");
  scene.Check();
  hostile.process().Kill();
  scene.CheckLast();
}

TEST_CASE("Random messages to every method harm nobody but who sends them") {
  const uint64_t seed = Seed();
  CAPTURE(seed);
  Scene scene;
  Hostile hostile(scene.socket());
  for (uint32_t round = 0; round < 4; ++round) {
    CAPTURE(round);
    // Calls may close it.
    hostile.AskFor("open p");
    const std::string said = scene.AskMeanwhile(
        hostile, absl::StrCat("calls ", seed + round, " ", UnlessSanitized(500, 150)));
    CAPTURE(said);
    CHECK(said.find("INVALID_ARGUMENT=") != std::string::npos);
    REQUIRE(scene.node().BecomeWaiting(0));
    scene.Check();
  }
  hostile.process().Kill();
  scene.CheckLast();
}

// Without Drain, which an empty message asks for: the daemon would end as it should.
TEST_CASE("Random bytes to every method of an operator's socket change nothing") {
  const uint64_t seed = Seed();
  CAPTURE(seed);
  Scene scene;
  const auto said = CallAtRandom({.address = scene.node().daemon().operator_socket(),
                                  .seed = seed,
                                  .count = 500,
                                  .without = {"Drain"}});
  CAPTURE(said.status().ToString());
  REQUIRE(said.ok());
  CHECK(scene.node().eyes().ListPools()->size() == 2);
  scene.Check();
  scene.CheckLast();
}

}  // namespace
}  // namespace kvpool::test
