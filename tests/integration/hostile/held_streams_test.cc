// Calls that are begun and never ended, up to what the daemon lets run at once and beyond it.
#include "tests/integration/hostile/held_streams.h"

#include <chrono>
#include <string>

#include "kvpool/v1/block.pb.h"
#include "tests/integration/hostile/generic_call.h"
#include "tests/integration/hostile/scene.h"
#include "tests/support/catch.h"
#include "tests/support/sanitizer.h"

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

TEST_CASE("Long calls that wait hold no more than a process may, and others' go on beside them") {
  // server/limits.h, and what gRPC and malloc may keep beside it.
  constexpr uint64_t kMaxProcessCallBytes = 256 << 20;
  constexpr uint64_t kSlackBytes = 256 << 20;
  constexpr size_t kMessageBytes = (8 << 20) - 64;
  Scene scene;
  const auto session = RawSession::Open(*scene.node().Connect(), {});
  REQUIRE(Said(session) == "OK");
  REQUIRE(Said((*session)->Alloc(Scene::kBlocks - Witness::kGuaranteed)) == "OK");
  v1::AllocRequest request;
  request.set_session_id((*session)->id());
  request.set_count(1);
  request.mutable_wait()->set_seconds(3600);
  // What the schema does not know is kept with the request.
  request.GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(
      2'000, std::string(kMessageBytes - request.ByteSizeLong(), 'x'));
  const uint64_t before = scene.node().daemon().AnonymousBytes();
  {
    HeldStreams streams({.address = scene.socket(),
                         .method = "/kvpool.v1.BlockService/Alloc",
                         .message = request.SerializeAsString(),
                         .is_last = true,
                         .count = 150});
    // A call counts as two of its requests: all others are refused.
    CHECK(scene.node().BecomeWaiting(kMaxProcessCallBytes / (2 * kMessageBytes) - 1));
    for (int i = 0; i < 20; ++i) scene.Check();
    if (!kIsSanitized) {  // Those keep what is freed.
      CHECK(scene.node().daemon().AnonymousBytes() < before + kMaxProcessCallBytes + kSlackBytes);
    }
  }
  CHECK(scene.node().BecomeWaiting(0));
  CHECK(Said((*session)->Close()) == "OK");
  scene.node().CountMemoryAgain();
  scene.CheckLast();
}

}  // namespace
}  // namespace kvpool::test
