// The memory and the socket that gives it, in the hands of a worker that means harm.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/integration/hostile/hostile.h"
#include "tests/integration/hostile/scene.h"
#include "tests/integration/support/region.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool::test {
namespace {

TEST_CASE("A worker can neither resize nor seal nor take over the memory that it maps") {
  Scene scene;
  Hostile hostile(scene.socket());
  hostile.AskFor("open p");
  REQUIRE(hostile.Ask("map") == "ok");
  for (const auto& [attack, said] : std::vector<std::pair<std::string, std::string>>{
           {"shrink", "EPERM"},
           {"empty", "EPERM"},
           {"grow", "EPERM"},
           {"extend", "EPERM"},
           {"append", "EPERM"},
           {"seal-writes", "EPERM"},
           {"seal-future-writes", "EPERM"},
           {"chmod", "EPERM"},
           {"chown", "EPERM"},
           {"reopen", "EACCES"},
           {"collapse", "EOPNOTSUPP"},
           // Of no use to anybody, and no harm: the daemon has no use for either.
           {"append-mode", "ok"},
           {"seek", "ok"}}) {
    CAPTURE(attack);
    CHECK(hostile.AskFor("try " + attack) == said);
    scene.Check();
  }
  hostile.process().Kill();
  scene.CheckLast();
}

// Who maps a pool can write all of it: its bytes are at risk, its bookkeeping and the daemon not.
TEST_CASE("A worker that punches holes or scribbles spoils its own pool's bytes and nothing else") {
  Scene scene;
  Hostile hostile(scene.socket());
  hostile.AskFor("open p");
  REQUIRE(hostile.Ask("map") == "ok");
  for (const auto& [attack, byte] : std::vector<std::pair<std::string, char>>{
           {"punch", '\0'}, {"remove", '\0'}, {"scribble", '\xA5'}}) {
    CAPTURE(attack);
    REQUIRE(hostile.AskFor("try " + attack) == "ok");
    scene.in_open_pool().CheckOverwritten(byte);
    scene.Check();
  }
  // What the daemon itself reads where the pages are gone.
  REQUIRE(hostile.AskFor("try punch") == "ok");
  v1::ChecksumLayersRequest request;
  request.set_pool("p");
  for (uint32_t block = 0; block < Witness::kHeld; ++block) request.add_block_ids(block);
  CHECK(Said(scene.node().eyes().ChecksumLayers(request)) == "OK");
  scene.in_open_pool().CheckOverwritten('\0');
  hostile.process().Kill();
  scene.CheckLast();
}

TEST_CASE("A worker is given the memory of its own session's pool and no other") {
  Scene scene;
  Hostile hostile(scene.socket());
  const std::string own = hostile.AskFor("open p");
  const std::string others = scene.in_open_pool().session().id();
  const std::string closed = scene.in_closed_pool().session().id();
  const uint64_t region = scene.in_open_pool().region_id();
  const uint64_t closed_region = scene.in_closed_pool().region_id();
  const auto ask = [&](const std::string& session, uint64_t region_id) {
    return hostile.AskFor(absl::StrCat("fd ", session, " ", region_id));
  };
  CHECK(ask(own, region) == "OK");
  CHECK(ask(others, region) == "PERMISSION_DENIED");
  CHECK(ask(closed, closed_region) == "PERMISSION_DENIED");
  CHECK(ask(own, closed_region) == "NOT_FOUND");
  CHECK(ask(closed, region) == "NOT_FOUND");
  CHECK(ask(own, 0) == "NOT_FOUND");
  CHECK(ask(own, UINT64_MAX) == "NOT_FOUND");
  CHECK(ask(std::string(32, '0'), region) == "NOT_FOUND");
  CHECK(ask(own.substr(0, 8), region) == "INVALID_ARGUMENT");
  CHECK(ask(std::string(400, 'x'), region) == "INVALID_ARGUMENT");

  CHECK(hostile.Ask("open closed") ==
        "error PERMISSION_DENIED: pool 'closed' is not for tenant 'uid-12345'");
  hostile.process().Kill();
  scene.CheckLast();
}

TEST_CASE("A worker that takes every connection of the fd socket keeps nobody from its memory") {
  Scene scene;
  Hostile hostile(scene.socket());
  hostile.AskFor("open p");
  // Twice as many as there may be, silent.
  REQUIRE(hostile.Ask("connect fd 512") == "ok");
  const std::string id = scene.in_open_pool().session().id();
  for (int i = 0; i < 20; ++i) {
    CHECK(Said(AskForRegion(scene.socket(), id, scene.in_open_pool().region_id())) == "OK");
  }
  // What it holds still, it can use.
  CHECK(hostile.Ask("map") == "ok");
  scene.Check();
  hostile.process().Kill();
  scene.CheckLast();
}

TEST_CASE("Packets that are no requests are refused, and descriptors that come along closed") {
  const uint64_t seed = Seed();
  CAPTURE(seed);
  Scene scene;
  Hostile hostile(scene.socket());
  CHECK(scene.AskMeanwhile(hostile, absl::StrCat("packets ", seed, " 1400")) == "ok");
  CHECK(hostile.Ask("unread") == "ok");
  for (int i = 0; i < 20; ++i) CHECK(hostile.Ask("pass-fds") == "ok");
  scene.Check();
  hostile.process().Kill();
  scene.CheckLast();
}

}  // namespace
}  // namespace kvpool::test
