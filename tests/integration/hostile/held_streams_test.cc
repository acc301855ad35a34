// Calls that are begun and never ended, up to what the daemon lets run at once and beyond it.
#include "tests/integration/hostile/held_streams.h"

#include <chrono>
#include <string>

#include "kvpool/v1/block.pb.h"
#include "tests/integration/hostile/generic_call.h"
#include "tests/integration/hostile/scene.h"
#include "tests/support/catch.h"

namespace kvpool::test {
namespace {

// server/limits.h.
constexpr size_t kMaxReflectionThreads = 8;
constexpr uint32_t kMaxConcurrentStreams = 1'024;
// gRPC's own start as the load asks for.
constexpr size_t kThreadSlack = 16;

TEST_CASE("Reflection that is asked a hundred times at once takes few threads and nobody's call") {
  constexpr char kMethod[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  const std::string list_services("\x3A\x01*");
  Scene scene;
  const size_t threads_before = scene.node().daemon().CountThreads();
  {
    HeldStreams streams({.address = scene.socket(),
                         .method = kMethod,
                         .message = list_services,
                         .is_last = false,
                         .count = 100});
    const size_t answered_count = streams.WaitForAnswers();
    // Each that was answered keeps a thread; the others were refused.
    CHECK(answered_count > 0);
    CHECK(answered_count <= kMaxReflectionThreads);
    CHECK(scene.node().daemon().CountThreads() <=
          threads_before + kMaxReflectionThreads + kThreadSlack);
    scene.Check();
  }
  CHECK(scene.node().eyes().Exchange(kMethod, list_services).ok());
  scene.CheckLast();
}

TEST_CASE("One connection has 1,024 calls running at once, and others theirs beside them") {
  Scene scene;
  const auto session = RawSession::Open(*scene.node().Connect(), {});
  REQUIRE(Said(session) == "OK");
  REQUIRE(Said((*session)->Alloc(Scene::kBlocks - Witness::kGuaranteed)) == "OK");
  v1::AllocRequest request;
  request.set_session_id((*session)->id());
  request.set_count(1);
  request.mutable_wait()->set_seconds(3600);  // Cut to what the daemon lets wait.
  const HeldStreams::Options options{.address = scene.socket(),
                                     .method = "/kvpool.v1.BlockService/Alloc",
                                     .message = request.SerializeAsString(),
                                     .is_last = true,
                                     .count = kMaxConcurrentStreams + 100};
  {
    const HeldStreams streams(options);
    CHECK(scene.node().BecomeWaiting(kMaxConcurrentStreams));
    // Some calls pass; what was begun with the others would wait by now.
    for (int i = 0; i < 20; ++i) scene.Check();
    CHECK(scene.node().Pool().waiting_calls() == kMaxConcurrentStreams);
  }
  CHECK(scene.node().BecomeWaiting(0));
  CHECK(scene.StopsGrowing([&] {
    for (int i = 0; i < 3; ++i) {
      {
        const HeldStreams streams(options);
        CHECK(scene.node().BecomeWaiting(kMaxConcurrentStreams));
      }
      CHECK(scene.node().BecomeWaiting(0));
    }
  }));
  CHECK(Said((*session)->Close()) == "OK");
  scene.CheckLast();
}

}  // namespace
}  // namespace kvpool::test
