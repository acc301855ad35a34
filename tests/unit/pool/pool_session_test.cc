#include <chrono>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/unit/pool/pool_fixture.h"

namespace kvpool::test {
namespace {

using std::chrono::seconds;

TEST_CASE("Create says what the device says where there is no room, and leaves nothing") {
  FakeDevice device;
  device.FailNextAllocation(absl::ResourceExhaustedError("no room"));
  RecordingObserver observer;
  const absl::StatusOr<PoolLayout> layout = PlanPool(SmallSpec());
  REQUIRE(layout.ok());
  PoolOptions options;
  options.layout = *layout;
  Device* const devices[] = {&device};

  const auto pool = Pool::Create(
      options, devices, [] { return TimePoint(); }, observer);

  CHECK(absl::IsResourceExhausted(pool.status()));
  CHECK(device.allocated_bytes() == 0);
}

TEST_CASE("The observer is told of a session's end and then that it is forgotten") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  CHECK(fixture.observer.Take().empty());

  CHECK(fixture.pool->CloseSession(session.caller()).ok());

  CHECK(fixture.observer.Take() == std::vector<std::string>{"ended 01", "forgotten 01"});
  CHECK(fixture.pool->is_idle());
}

TEST_CASE("A session without calls for its ttl ends by Advance") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session, ProcessId{1}, seconds(10));
  CHECK(fixture.pool->Advance() == TimePoint(seconds(10)));

  fixture.time = Duration(seconds(10)).count();
  fixture.pool->Advance();

  const std::vector<std::string> told = fixture.observer.Take();
  REQUIRE_FALSE(told.empty());
  CHECK(told[0] == "ended 01");
  CHECK(absl::IsNotFound(fixture.pool->BeginCall(session.caller())));
}

TEST_CASE("A session does not expire between BeginCall and EndCall") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session, ProcessId{1}, seconds(10));
  REQUIRE(fixture.pool->BeginCall(session.caller()).ok());

  fixture.time = Duration(seconds(100)).count();
  fixture.pool->Advance();
  CHECK(fixture.observer.Take().empty());
  fixture.pool->EndCall(session.id);
  fixture.time = Duration(seconds(110)).count();
  fixture.pool->Advance();

  REQUIRE_FALSE(fixture.observer.Take().empty());
}

TEST_CASE("An attached session ends with its stream, and its claims with its process") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session, ProcessId{1});
  REQUIRE(fixture.pool->Attach(session.caller(), ProcessId{1}).ok());
  REQUIRE(fixture.pool->AddProcess(session.caller(), ProcessId{2}).ok());
  fixture.Alloc(session, 3);

  fixture.pool->Detach(session.id);
  CHECK(fixture.observer.Take() == std::vector<std::string>{"ended 01"});
  CHECK(fixture.pool->counts().quarantined_blocks == 3);
  CHECK_FALSE(fixture.pool->is_idle());
  fixture.pool->ProcessGone(ProcessId{1});
  CHECK(fixture.pool->counts().quarantined_blocks == 3);
  fixture.pool->ProcessGone(ProcessId{2});
  fixture.pool->Advance();

  CHECK(fixture.observer.Take() == std::vector<std::string>{"forgotten 01"});
  CHECK(fixture.pool->counts().free_blocks == 8);
  CHECK(fixture.pool->is_idle());
}

TEST_CASE("A terminated session's claims are released where the operator says so") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  fixture.Alloc(session, 3);

  CHECK(fixture.pool->TerminateSession(session.id, /*release_claims=*/true).ok());

  CHECK(fixture.pool->counts().free_blocks == 8);
  CHECK(absl::IsNotFound(fixture.pool->TerminateSession(TestSession(9).id, false)));
}

TEST_CASE("Blocks pass from session to session by IncRef with their generations") {
  PoolFixture fixture;
  const TestSession first(1);
  const TestSession second(2);
  fixture.Open(first);
  fixture.Open(second);
  const std::vector<BlockRef> blocks = fixture.Alloc(first, 2);

  CHECK(fixture.pool->IncRef({.caller = second.caller(), .blocks = blocks, .idempotency_key = 0})
            .ok());
  fixture.DecRef(first, blocks);

  CHECK(fixture.pool->counts().held_blocks == 2);
}

TEST_CASE("ListBlocks gives the blocks that there are, in order") {
  PoolFixture fixture(SmallSpec(/*num_blocks=*/600));
  const TestSession session(1);
  fixture.Open(session);
  fixture.Alloc(session, 300);

  const std::vector<BlockInfo> all = fixture.pool->ListBlocks(0, 600);
  REQUIRE(all.size() == 600);
  for (uint32_t i = 0; i < 600; ++i) {
    CAPTURE(i);
    REQUIRE(all[i].block == BlockId{i});
    REQUIRE(all[i].state == (i < 300 ? BlockState::kHeld : BlockState::kFree));
  }
  CHECK(fixture.pool->ListBlocks(590, 100).size() == 10);
  CHECK(fixture.pool->ListBlocks(600, 1).empty());
  CHECK(fixture.pool->ListBlocks(0xFFFF'FFFF, 0xFFFF'FFFF).empty());
  CHECK(fixture.pool->GetBlock(BlockId{299}).state == BlockState::kHeld);
}

TEST_CASE("Sessions are inspected through the pool") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  fixture.Alloc(session, 3);

  const auto info = fixture.pool->GetSession(session.id, /*max_blocks=*/2);
  REQUIRE(info.ok());
  CHECK(info->held_blocks == 3);
  CHECK(info->blocks.size() == 2);
  CHECK(info->truncated);
  CHECK(fixture.pool->ListSessions().size() == 1);
  CHECK_FALSE(fixture.pool->TraceLine(BlockId{0}).empty());
}

// An observer may call the pool: the delivery of what comes of it follows the one it is in.
TEST_CASE("The observer may call the pool, and hears of what came of it afterwards") {
  class Closer final : public PoolObserver {
   public:
    void OnSessionEnded(const SessionId& session, SessionEnd) override {
      order.push_back(session.bytes[15]);
      if (session == TestSession(1).id) {
        CHECK(pool->CloseSession(TestSession(2).caller()).ok());
        order.push_back(0);
      }
    }
    void OnSessionForgotten(const SessionId&) override {}
    void OnMemberGone(const SessionId&) override {}
    Pool* pool = nullptr;
    std::vector<int> order;
  };
  FakeDevice device;
  Closer closer;
  const std::shared_ptr<Pool> pool = MakePool(
      SmallSpec(), device, [] { return TimePoint(); }, closer);
  closer.pool = pool.get();
  for (const uint8_t number : {uint8_t{1}, uint8_t{2}}) {
    OpenSessionCall call;
    call.id = TestSession(number).id;
    call.tenant = "tenant";
    call.ttl = seconds(10);
    REQUIRE(pool->OpenSession(call).ok());
  }

  CHECK(pool->CloseSession(TestSession(1).caller()).ok());

  CHECK(closer.order == std::vector<int>{1, 0, 2});
}

}  // namespace
}  // namespace kvpool::test
