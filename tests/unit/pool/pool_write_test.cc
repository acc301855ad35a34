#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/support/catch.h"
#include "tests/unit/pool/pool_fixture.h"

namespace kvpool::test {
namespace {

bool Equals(std::span<const std::byte> bytes, absl::string_view text) {
  return absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()) == text;
}

TEST_CASE("Write puts a piece where it says and nowhere else") {
  PoolSpec spec = SmallSpec();
  spec.devices = {"host", "host"};
  PoolFixture fixture(spec);
  const TestSession session(1);
  fixture.Open(session);
  fixture.Alloc(session, 2);
  const PieceRange range{.shard = 1,
                         .block = BlockId{1},
                         .layer = 1,
                         .side = Side::kV,
                         .offset_bytes = 100,
                         .size_bytes = 50};

  REQUIRE(fixture.Write(session, MakePiece(range, /*seed=*/7)).ok());

  const auto side = fixture.Bytes(BlockId{1}, 1, Side::kV, 1);
  CHECK(Equals(side.subspan(100, 50), MakePattern(range, 7)));
  CHECK(Equals(side.first(100), std::string(100, '\0')));
  CHECK(Equals(side.subspan(150), std::string(512 - 150, '\0')));
  CHECK(Equals(fixture.Bytes(BlockId{1}, 1, Side::kK, 1), std::string(512, '\0')));
  CHECK(fixture.IsFilled(BlockId{0}, 0x00));
}

TEST_CASE("Write refuses what is not in the pool, and what passes the end of its side") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  fixture.Alloc(session, 1);
  const auto write = [&](PieceRange range) {
    return fixture.Write(session, {.range = range, .data = std::string(range.size_bytes, 'x')});
  };

  CHECK(absl::IsOutOfRange(write({.offset_bytes = 500, .size_bytes = 13})));
  CHECK(absl::IsOutOfRange(write({.offset_bytes = ~uint64_t{0}, .size_bytes = 2})));
  CHECK(absl::IsInvalidArgument(write({.shard = 1, .size_bytes = 1})));
  CHECK(absl::IsInvalidArgument(write({.layer = 2, .size_bytes = 1})));
  CHECK(absl::IsInvalidArgument(write({.block = BlockId{8}, .size_bytes = 1})));
  CHECK(absl::IsInvalidArgument(
      fixture.Write(session, {.range = {.size_bytes = 4}, .data = "five!"})));
  CHECK(fixture.IsFilled(BlockId{0}, 0x00));
  CHECK(write({.offset_bytes = 500, .size_bytes = 12}).ok());
}

TEST_CASE("Write needs the block held by the session") {
  PoolFixture fixture;
  const TestSession session(1);
  const TestSession other(2);
  fixture.Open(session);
  fixture.Open(other);
  fixture.Alloc(session, 1);

  const absl::Status not_held = fixture.Write(other, MakePiece({.size_bytes = 8}, 1));
  const absl::Status unknown = fixture.Write(TestSession(3), MakePiece({.size_bytes = 8}, 1));

  CHECK(GetErrorDetail(not_held).reason == Reason::kNotHeld);
  CHECK(GetErrorDetail(unknown).reason == Reason::kSessionUnknown);
  CHECK(fixture.IsFilled(BlockId{0}, 0x00));
}

TEST_CASE("Write to a claimed block is CLAIMED") {
  PoolFixture fixture;
  const TestSession session(1);
  const TestSession dead(2);
  fixture.Open(session);
  fixture.Open(dead, ProcessId{2});
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 1);
  REQUIRE(
      fixture.pool->IncRef({.caller = dead.caller(), .blocks = blocks, .idempotency_key = 0}).ok());
  REQUIRE(fixture.pool->TerminateSession(dead.id, /*release_claims=*/false).ok());

  const absl::Status status = fixture.Write(session, MakePiece({.size_bytes = 8}, 1));

  CHECK(GetErrorDetail(status).reason == Reason::kClaimed);
}

TEST_CASE("A write that fails is DEVICE_FAILED with the device's message") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  fixture.Alloc(session, 1);
  fixture.device.FailNextOperation(absl::InternalError("the bus fell off"));

  const absl::Status status = fixture.Write(session, MakePiece({.size_bytes = 8}, 1));

  CHECK(absl::IsFailedPrecondition(status));
  CHECK(GetErrorDetail(status).reason == Reason::kDeviceFailed);
  CHECK(status.message() == "the bus fell off");
  CHECK(fixture.Write(session, MakePiece({.size_bytes = 8}, 1)).ok());
}

// Until a slow write is over, nobody else gets the block that it writes to.
TEST_CASE("A block let go while it is being written is not issued again before the write ends") {
  PoolFixture fixture(SmallSpec(/*num_blocks=*/1));
  const TestSession writer(1);
  const TestSession next(2);
  fixture.Open(writer);
  fixture.Open(next);
  const std::vector<BlockRef> blocks = fixture.Alloc(writer, 1);
  fixture.device.Hold();
  Answer<absl::Status> write = fixture.StartWrite(writer, MakePiece({.size_bytes = 512}, 1));
  REQUIRE(fixture.pool->CloseSession(writer.caller()).ok());

  AllocCall call = MakeAllocCall(next, 1);
  call.wait = std::chrono::seconds(5);
  Answer<AllocResult> alloc;
  fixture.pool->Alloc(call, alloc.callback());
  // Only the write is at the device: no fill of the block has begun.
  REQUIRE(fixture.device.held_count() == 1);
  fixture.device.Release();

  CHECK(write.count() == 1);
  REQUIRE(alloc.count() == 1);
  REQUIRE(alloc.Take().ok());
  CHECK(fixture.IsFilled(blocks[0].block, 0x00));
}

}  // namespace
}  // namespace kvpool::test
