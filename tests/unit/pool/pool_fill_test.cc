#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/unit/pool/pool_fixture.h"

namespace kvpool::test {
namespace {

using std::chrono::seconds;

TEST_CASE("FillBlocks sets every byte of its blocks and none of others") {
  PoolSpec spec = SmallSpec();
  spec.devices = {"host", "host"};
  PoolFixture fixture(spec);
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 4);

  CHECK(fixture.StartFill(session, {blocks[1], blocks[3]}, Fill::kPoison).Take().ok());

  CHECK(fixture.IsFilled(blocks[0].block, 0x00));
  CHECK(fixture.IsFilled(blocks[1].block, 0xFF));
  CHECK(fixture.IsFilled(blocks[2].block, 0x00));
  CHECK(fixture.IsFilled(blocks[3].block, 0xFF));
  CHECK(fixture.StartFill(session, {blocks[1]}, Fill::kZero).Take().ok());
  CHECK(fixture.IsFilled(blocks[1].block, 0x00));
}

TEST_CASE("FillBlocks of no blocks is fine") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);

  CHECK(fixture.StartFill(session, {}, Fill::kZero).Take().ok());
}

TEST_CASE("FillBlocks refuses what is neither zero nor poison") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 1);

  for (const Fill fill : {Fill::kUnspecified, Fill::kAcrossTenants}) {
    CHECK(absl::IsInvalidArgument(fixture.StartFill(session, blocks, fill).Take()));
  }
}

TEST_CASE("FillBlocks refuses sessions that are not there or of another tenant") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 1);

  const absl::Status unknown = fixture.StartFill(TestSession(2), blocks, Fill::kPoison).Take();
  const absl::Status foreign =
      fixture.StartFill(TestSession(1, "other"), blocks, Fill::kPoison).Take();

  CHECK(GetErrorDetail(unknown).reason == Reason::kSessionUnknown);
  CHECK(absl::IsPermissionDenied(foreign));
  CHECK(fixture.IsFilled(blocks[0].block, 0x00));
}

TEST_CASE("FillBlocks with a wrong entry names it and changes nothing") {
  PoolFixture fixture(BigSpec());
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 4);
  std::vector<BlockRef> list = blocks;

  // The fourth and fifth are in the second and third slices.
  list.push_back({.block = BlockId{6}, .generation = Generation{}});
  const absl::Status not_held = fixture.StartFill(session, list, Fill::kPoison).Take();
  list.pop_back();
  list[3].generation = Generation{static_cast<uint64_t>(list[3].generation) + 1};
  const absl::Status stale = fixture.StartFill(session, list, Fill::kPoison).Take();

  CHECK(absl::IsFailedPrecondition(not_held));
  CHECK(GetErrorDetail(not_held).reason == Reason::kNotHeld);
  CHECK(GetErrorDetail(not_held).index == 4);
  CHECK(GetErrorDetail(not_held).block_id == 6);
  CHECK(GetErrorDetail(stale).reason == Reason::kStaleBlock);
  CHECK(GetErrorDetail(stale).index == 3);
  for (const BlockRef& ref : blocks) CHECK(fixture.IsFilled(ref.block, 0x00));
}

TEST_CASE("FillBlocks refuses a block that a dead session claims") {
  PoolFixture fixture;
  const TestSession session(1);
  const TestSession dead(2);
  fixture.Open(session);
  fixture.Open(dead, ProcessId{2});
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 1);
  REQUIRE(
      fixture.pool->IncRef({.caller = dead.caller(), .blocks = blocks, .idempotency_key = 0}).ok());
  REQUIRE(fixture.pool->TerminateSession(dead.id, /*release_claims=*/false).ok());

  const absl::Status status = fixture.StartFill(session, blocks, Fill::kPoison).Take();

  CHECK(absl::IsFailedPrecondition(status));
  CHECK(GetErrorDetail(status).reason == Reason::kClaimed);
}

TEST_CASE("FillBlocks goes slice by slice, and others get their turn in between") {
  PoolFixture fixture(BigSpec());
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 4);
  fixture.device.Hold();
  Answer<absl::Status> fill = fixture.StartFill(session, blocks, Fill::kPoison);
  REQUIRE(fixture.device.held_count() == 1);

  // The second slice is not pinned while the first is being filled.
  Answer<absl::Status> other = fixture.StartFill(session, {blocks[3]}, Fill::kZero);
  CHECK(fixture.device.held_count() == 2);
  // The first one is.
  Answer<absl::Status> waiting = fixture.StartFill(session, {blocks[0]}, Fill::kZero);
  CHECK(fixture.device.held_count() == 2);
  REQUIRE(fixture.device.CompleteOne());
  CHECK(fill.count() == 0);
  fixture.device.Release();

  CHECK(fill.Take().ok());
  CHECK(other.Take().ok());
  CHECK(waiting.Take().ok());
  CHECK(fixture.IsFilled(blocks[0].block, 0x00));
  CHECK(fixture.IsFilled(blocks[2].block, 0xFF));
  CHECK(fixture.IsFilled(blocks[3].block, 0xFF));
}

TEST_CASE("Two writers on one block take turns, first come first served") {
  PoolFixture fixture;
  const TestSession first(1);
  const TestSession second(2);
  fixture.Open(first);
  fixture.Open(second);
  const std::vector<BlockRef> blocks = fixture.Alloc(first, 1);
  REQUIRE(fixture.pool->IncRef({.caller = second.caller(), .blocks = blocks, .idempotency_key = 0})
              .ok());
  fixture.device.Hold();

  Answer<absl::Status> poison = fixture.StartFill(first, blocks, Fill::kPoison);
  Answer<absl::Status> zero = fixture.StartFill(second, blocks, Fill::kZero);
  CHECK(fixture.device.held_count() == 1);
  REQUIRE(fixture.device.CompleteOne());
  CHECK(poison.count() == 1);
  CHECK(zero.count() == 0);
  CHECK(fixture.IsFilled(blocks[0].block, 0xFF));
  fixture.device.Release();

  CHECK(poison.Take().ok());
  CHECK(zero.Take().ok());
  CHECK(fixture.IsFilled(blocks[0].block, 0x00));
}

TEST_CASE("A waiting fill whose session ends is answered with an error and fills nothing") {
  PoolFixture fixture;
  const TestSession first(1);
  const TestSession second(2);
  fixture.Open(first);
  fixture.Open(second);
  const std::vector<BlockRef> blocks = fixture.Alloc(first, 1);
  REQUIRE(fixture.pool->IncRef({.caller = second.caller(), .blocks = blocks, .idempotency_key = 0})
              .ok());
  fixture.device.Hold();
  Answer<absl::Status> poison = fixture.StartFill(first, blocks, Fill::kPoison);
  Answer<absl::Status> zero = fixture.StartFill(second, blocks, Fill::kZero);

  REQUIRE(fixture.pool->CloseSession(second.caller()).ok());
  fixture.device.Release();

  CHECK(poison.Take().ok());
  CHECK_FALSE(zero.Take().ok());
  CHECK(fixture.IsFilled(blocks[0].block, 0xFF));
}

TEST_CASE("A block let go in the middle of a fill is not given out before the slice ends") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 1);
  fixture.device.Hold();
  Answer<absl::Status> fill = fixture.StartFill(session, blocks, Fill::kPoison);

  fixture.DecRef(session, blocks);
  CHECK(fixture.pool->GetBlock(blocks[0].block).state == BlockState::kQuarantined);
  fixture.device.Release();

  CHECK(fill.count() == 1);
  CHECK(fixture.pool->GetBlock(blocks[0].block).state == BlockState::kFree);
  CHECK(fixture.pool->CheckInvariants().ok());
}

TEST_CASE("A block let go before its slice ends the fill, which names its place in the list") {
  PoolFixture fixture(BigSpec());
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 5);
  std::vector<BlockRef> without_generations = blocks;
  for (BlockRef& ref : without_generations) ref.generation = Generation{};
  fixture.device.Hold();
  Answer<absl::Status> fill = fixture.StartFill(session, without_generations, Fill::kPoison);

  // Held again, but not as it was meant.
  fixture.DecRef(session, std::span(blocks).subspan(3, 1));
  fixture.device.Release();
  const absl::Status status = fill.Take();

  CHECK(absl::IsFailedPrecondition(status));
  CHECK(GetErrorDetail(status).index == 3);
  CHECK(GetErrorDetail(status).block_id == ToIndex(blocks[3].block));
  CHECK(status.message().substr(0, 9) == "entry 3: ");
  CHECK(fixture.IsFilled(blocks[0].block, 0xFF));
  CHECK(fixture.IsFilled(blocks[4].block, 0x00));
}

TEST_CASE("A block taken again before its slice is not filled as the one that was meant") {
  PoolFixture fixture(BigSpec(/*num_blocks=*/4));
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 4);
  std::vector<BlockRef> without_generations = blocks;
  for (BlockRef& ref : without_generations) ref.generation = Generation{};
  fixture.device.Hold();
  Answer<absl::Status> fill = fixture.StartFill(session, without_generations, Fill::kPoison);

  fixture.DecRef(session, std::span(blocks).subspan(3, 1));
  const std::vector<BlockRef> again = fixture.Alloc(session, 1, Fill::kAcrossTenants);
  REQUIRE(again[0].block == blocks[3].block);
  fixture.device.Release();

  CHECK(GetErrorDetail(fill.Take()).reason == Reason::kStaleBlock);
  CHECK(fixture.IsFilled(again[0].block, 0x00));
}

TEST_CASE("A fill that fails is DEVICE_FAILED with the device's message, and holds nothing after") {
  PoolFixture fixture(BigSpec());
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 4);
  fixture.device.Hold();
  Answer<absl::Status> fill = fixture.StartFill(session, blocks, Fill::kPoison);
  REQUIRE(fixture.device.CompleteOne());

  REQUIRE(fixture.device.FailOne(absl::InternalError("the bus fell off")));
  fixture.device.Release();

  CHECK(fill.count() == 1);
  const absl::Status status = fill.Take();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(GetErrorDetail(status).reason == Reason::kDeviceFailed);
  CHECK(status.message() == "the bus fell off");
  CHECK(fixture.StartFill(session, blocks, Fill::kZero).Take().ok());
}

TEST_CASE("A session does not expire while its fill runs, and its names may be gone by then") {
  PoolFixture fixture(BigSpec());
  auto session = std::make_unique<TestSession>(1, "a tenant whose name is not stored in place");
  fixture.Open(*session, ProcessId{1}, seconds(10));
  const std::vector<BlockRef> blocks = fixture.Alloc(*session, 4);
  fixture.device.Hold();
  Answer<absl::Status> fill = fixture.StartFill(*session, blocks, Fill::kPoison);
  session.reset();

  fixture.time = Duration(seconds(100)).count();
  fixture.pool->Advance();
  CHECK(fixture.observer.Take().empty());
  fixture.device.Release();
  CHECK(fill.Take().ok());
  fixture.time = Duration(seconds(110)).count();
  fixture.pool->Advance();

  CHECK_FALSE(fixture.observer.Take().empty());
}

TEST_CASE("A fill keeps the pool alive until its callback is over") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 1);
  fixture.device.Hold();
  const std::weak_ptr<Pool> pool = fixture.pool;
  bool is_alive_in_callback = false;
  fixture.pool->FillBlocks(session.caller(), blocks, Fill::kPoison,
                           [&](const absl::Status&) { is_alive_in_callback = !pool.expired(); });

  fixture.pool.reset();
  fixture.device.Release();

  CHECK(is_alive_in_callback);
  CHECK(pool.expired());
}

}  // namespace
}  // namespace kvpool::test
