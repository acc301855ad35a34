#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "tests/support/catch.h"
#include "tests/unit/pool/pool_fixture.h"

namespace kvpool::test {
namespace {

using std::chrono::seconds;

TEST_CASE("Alloc answers at once where there is room and nothing to fill") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  Answer<AllocResult> answer;

  const PendingId id =
      fixture.pool->Alloc(MakeAllocCall(session, 3, Fill::kAcrossTenants), answer.callback());

  CHECK(id == PendingId{});
  CHECK(answer.count() == 1);
  const AllocResult result = answer.Take();
  REQUIRE(result.ok());
  REQUIRE(result->blocks.size() == 3);
  CHECK(result->blocks[0].block == BlockId{0});
  CHECK(result->blocks[2].block == BlockId{2});
  CHECK(result->available == 5);
}

TEST_CASE("Alloc that the ledger refuses answers at once with the ledger's error") {
  PoolFixture fixture;
  const TestSession session(1);
  Answer<AllocResult> answer;

  CHECK(fixture.pool->Alloc(MakeAllocCall(session, 1), answer.callback()) == PendingId{});

  CHECK(answer.count() == 1);
  CHECK(GetErrorDetail(answer.Take().status()).reason == Reason::kSessionUnknown);
}

TEST_CASE("Alloc is answered when its fills are over, and not before") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  fixture.device.Hold();
  Answer<AllocResult> answer;

  const PendingId id =
      fixture.pool->Alloc(MakeAllocCall(session, 2, Fill::kPoison), answer.callback());

  CHECK(id != PendingId{});
  CHECK(answer.count() == 0);
  REQUIRE(fixture.device.held_count() == 1);
  CHECK(fixture.IsFilled(BlockId{0}, 0x00));

  fixture.device.Release();

  CHECK(answer.count() == 1);
  const AllocResult result = answer.Take();
  REQUIRE(result.ok());
  REQUIRE(result->blocks.size() == 2);
  for (const BlockRef& ref : result->blocks) CHECK(fixture.IsFilled(ref.block, 0xFF));
  CHECK(fixture.IsFilled(BlockId{2}, 0x00));
}

TEST_CASE("Alloc returns no id where its fills ended in the call itself") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  Answer<AllocResult> answer;

  CHECK(fixture.pool->Alloc(MakeAllocCall(session, 2, Fill::kPoison), answer.callback()) ==
        PendingId{});

  CHECK(answer.count() == 1);
  CHECK(answer.Take().ok());
}

TEST_CASE("Alloc fills in every shard") {
  PoolSpec spec = SmallSpec();
  spec.devices = {"host", "host"};
  PoolFixture fixture(spec);
  const TestSession session(1);
  fixture.Open(session);

  const std::vector<BlockRef> blocks = fixture.Alloc(session, 1, Fill::kPoison);

  CHECK(fixture.IsFilled(blocks[0].block, 0xFF));
}

TEST_CASE("Alloc fills what is more than a slice in several") {
  PoolFixture fixture(BigSpec());
  const TestSession session(1);
  fixture.Open(session);
  fixture.device.Hold();
  Answer<AllocResult> answer;
  fixture.pool->Alloc(MakeAllocCall(session, 5, Fill::kPoison), answer.callback());

  for (int slice = 0; slice < 3; ++slice) {
    CAPTURE(slice);
    CHECK(answer.count() == 0);
    REQUIRE(fixture.device.held_count() == 1);
    REQUIRE(fixture.device.CompleteOne());
  }

  CHECK(answer.count() == 1);
  CHECK(answer.Take().ok());
  for (uint32_t i = 0; i < 5; ++i) CHECK(fixture.IsFilled(BlockId{i}, 0xFF));
}

TEST_CASE("Alloc whose fill fails is DEVICE_FAILED with the device's message, and took nothing") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  fixture.device.FailNextOperation(absl::InternalError("the bus fell off"));
  Answer<AllocResult> answer;

  fixture.pool->Alloc(MakeAllocCall(session, 2, Fill::kPoison), answer.callback());

  CHECK(answer.count() == 1);
  const absl::Status status = answer.Take().status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(GetErrorDetail(status).reason == Reason::kDeviceFailed);
  CHECK(status.message() == "the bus fell off");
  CHECK(fixture.pool->counts().free_blocks == 8);
  CHECK(fixture.pool->CheckInvariants().ok());
}

TEST_CASE("A waiting Alloc is answered once, when blocks are let go") {
  PoolFixture fixture;
  const TestSession first(1);
  const TestSession second(2);
  fixture.Open(first);
  fixture.Open(second);
  const std::vector<BlockRef> all = fixture.Alloc(first, 8, Fill::kAcrossTenants);
  AllocCall call = MakeAllocCall(second, 2);
  call.wait = seconds(5);
  Answer<AllocResult> answer;

  CHECK(fixture.pool->Alloc(call, answer.callback()) != PendingId{});
  CHECK(answer.count() == 0);
  fixture.DecRef(first, all);

  CHECK(answer.count() == 1);
  const AllocResult result = answer.Take();
  REQUIRE(result.ok());
  CHECK(result->blocks.size() == 2);
  CHECK(fixture.pool->counts().held_blocks == 2);
}

TEST_CASE("A waiting Alloc whose time is over is answered by Advance") {
  PoolFixture fixture;
  const TestSession first(1);
  const TestSession second(2);
  fixture.Open(first);
  fixture.Open(second);
  fixture.Alloc(first, 8);
  AllocCall call = MakeAllocCall(second, 1);
  call.wait = seconds(5);
  Answer<AllocResult> answer;
  fixture.pool->Alloc(call, answer.callback());

  const std::optional<TimePoint> due = fixture.pool->Advance();
  REQUIRE(due.has_value());
  CHECK(*due == TimePoint(seconds(5)));
  CHECK(answer.count() == 0);
  fixture.time = Duration(seconds(5)).count();
  fixture.pool->Advance();

  CHECK(answer.count() == 1);
  CHECK(GetErrorDetail(answer.Take().status()).reason == Reason::kPoolFull);
}

TEST_CASE("A cancelled Alloc is answered CANCELLED, once, and got nothing") {
  PoolFixture fixture;
  const TestSession first(1);
  const TestSession second(2);
  fixture.Open(first);
  fixture.Open(second);
  const std::vector<BlockRef> all = fixture.Alloc(first, 8);
  AllocCall call = MakeAllocCall(second, 2);
  call.wait = seconds(5);
  Answer<AllocResult> answer;
  const PendingId id = fixture.pool->Alloc(call, answer.callback());

  fixture.pool->Cancel(id);
  fixture.pool->Cancel(id);
  fixture.DecRef(first, all);

  CHECK(answer.count() == 1);
  CHECK(absl::IsCancelled(answer.Take().status()));
  CHECK(fixture.pool->counts().free_blocks == 8);
}

TEST_CASE("Cancel of an Alloc that has its blocks changes nothing") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  fixture.device.Hold();
  Answer<AllocResult> answer;
  const PendingId id =
      fixture.pool->Alloc(MakeAllocCall(session, 1, Fill::kPoison), answer.callback());

  fixture.pool->Cancel(id);
  CHECK(answer.count() == 0);
  fixture.device.Release();

  CHECK(answer.count() == 1);
  CHECK(answer.Take().ok());
}

TEST_CASE("A session that ends while its blocks are being filled leaves nothing behind") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  fixture.device.Hold();
  Answer<AllocResult> answer;
  fixture.pool->Alloc(MakeAllocCall(session, 2, Fill::kPoison), answer.callback());

  CHECK(fixture.pool->CloseSession(session.caller()).ok());
  // The fill goes on, so nobody may have the blocks yet.
  CHECK(fixture.pool->counts().free_blocks == 6);
  fixture.device.Release();

  CHECK(answer.count() == 1);
  CHECK_FALSE(answer.Take().ok());
  CHECK(fixture.pool->counts().free_blocks == 8);
  CHECK(fixture.pool->CheckInvariants().ok());
}

TEST_CASE("A pending Alloc keeps the pool alive until its callback is over") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  fixture.device.Hold();
  Answer<AllocResult> answer;
  fixture.pool->Alloc(MakeAllocCall(session, 1, Fill::kPoison), answer.callback());

  const std::weak_ptr<Pool> pool = fixture.pool;
  fixture.pool.reset();
  CHECK_FALSE(pool.expired());
  fixture.device.Release();

  CHECK(answer.count() == 1);
  CHECK(answer.Take().ok());
  CHECK(pool.expired());
}

TEST_CASE("An Alloc's callback may let go of the last reference to the pool") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  bool is_called = false;

  fixture.pool->Alloc(MakeAllocCall(session, 1, Fill::kAcrossTenants), [&](const AllocResult&) {
    is_called = true;
    fixture.pool.reset();
  });

  CHECK(is_called);
  CHECK(fixture.device.allocated_bytes() == 0);
}

// Each callback lets go of its block and takes one again: without one queue of deliveries this
// would nest 100,000 deep.
TEST_CASE("Callbacks that call the pool again do not nest") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  int answers = 0;
  int depth = 0;
  int deepest = 0;
  std::function<void(AllocResult)> again = [&](const AllocResult& result) {
    if (!result.ok()) return;
    deepest = std::max(deepest, ++depth);
    fixture.DecRef(session, result->blocks);
    if (++answers < 100'000) {
      fixture.pool->Alloc(MakeAllocCall(session, 1, Fill::kPoison), again);
    }
    --depth;
  };

  fixture.pool->Alloc(MakeAllocCall(session, 1, Fill::kPoison), again);

  CHECK(answers == 100'000);
  CHECK(deepest == 1);
}

// What one tenant wrote is not readable by another.
TEST_CASE("A block that another tenant wrote is zeros when it changes hands") {
  PoolFixture fixture;
  const TestSession writer(1, "writer");
  const TestSession reader(2, "reader");
  fixture.Open(writer);
  fixture.Open(reader);
  const std::vector<BlockRef> written = fixture.Alloc(writer, 8, Fill::kAcrossTenants);
  Answer<absl::Status> poisoned = fixture.StartFill(writer, written, Fill::kPoison);
  REQUIRE(poisoned.Take().ok());
  fixture.DecRef(writer, written);

  const std::vector<BlockRef> taken = fixture.Alloc(reader, 8, Fill::kUnspecified);

  auto opened = fixture.pool->OpenReader(reader.caller(), taken, {}, 0);
  REQUIRE(opened.ok());
  const auto pieces = ReadAll(**opened);
  REQUIRE(pieces.ok());
  CHECK(pieces->size() == 8 * 2 * 2);
  for (const BlockPiece& piece : *pieces) {
    CHECK(piece.data == std::string(piece.range.size_bytes, '\0'));
  }
}

}  // namespace
}  // namespace kvpool::test
