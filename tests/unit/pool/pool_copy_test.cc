#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/unit/pool/pool_fixture.h"

namespace kvpool::test {
namespace {

struct CopyLists {
  std::vector<BlockRef> sources;
  std::vector<BlockRef> destinations;
};

Answer<absl::Status> StartCopy(const std::shared_ptr<Pool>& source,
                               const std::shared_ptr<Pool>& destination, const TestSession& session,
                               CopyLists lists,
                               std::optional<SessionId> destination_session = std::nullopt) {
  Answer<absl::Status> answer;
  Pool::CopyBlocks(source, destination, session.caller(), std::move(lists.sources),
                   std::move(lists.destinations), destination_session, answer.callback());
  return answer;
}

// Writes `value` over the whole of a block.
void Set(const PoolFixture& fixture, BlockId block, uint8_t value) {
  for (uint32_t shard = 0; shard < fixture.pool->layout().num_shards(); ++shard) {
    for (uint32_t layer = 0; layer < fixture.pool->layout().layers.size(); ++layer) {
      for (const Side side : {Side::kK, Side::kV}) {
        for (std::byte& byte : fixture.Bytes(block, layer, side, shard)) byte = std::byte{value};
      }
    }
  }
}

BlockRef Unheld(uint32_t block) { return {.block = BlockId{block}, .generation = Generation{}}; }

TEST_CASE("CopyBlocks copies source i to destination i, in every layer and shard") {
  PoolSpec spec = SmallSpec();
  spec.devices = {"host", "host"};
  PoolFixture fixture(spec);
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 5);
  Set(fixture, blocks[0].block, 0x11);
  Set(fixture, blocks[1].block, 0x22);

  // One source may go to two destinations.
  const absl::Status status = StartCopy(fixture.pool, fixture.pool, session,
                                        {.sources = {blocks[1], blocks[0], blocks[1]},
                                         .destinations = {blocks[2], blocks[3], blocks[4]}})
                                  .Take();

  REQUIRE(status.ok());
  CHECK(fixture.IsFilled(blocks[0].block, 0x11));
  CHECK(fixture.IsFilled(blocks[2].block, 0x22));
  CHECK(fixture.IsFilled(blocks[3].block, 0x11));
  CHECK(fixture.IsFilled(blocks[4].block, 0x22));
}

TEST_CASE("CopyBlocks of no blocks is fine") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);

  CHECK(StartCopy(fixture.pool, fixture.pool, session, {}).Take().ok());
}

TEST_CASE("CopyBlocks refuses lists that cannot be pairs, naming the entry") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 4);
  const auto copy = [&](CopyLists lists) {
    return StartCopy(fixture.pool, fixture.pool, session, std::move(lists)).Take();
  };

  CHECK(absl::IsInvalidArgument(copy({.sources = {blocks[0]}, .destinations = {}})));
  const absl::Status twice =
      copy({.sources = {blocks[0], blocks[0]}, .destinations = {blocks[2], blocks[2]}});
  CHECK(absl::IsInvalidArgument(twice));
  CHECK(GetErrorDetail(twice).index == 1);
  CHECK(GetErrorDetail(twice).block_id == ToIndex(blocks[2].block));
  const absl::Status also_source =
      copy({.sources = {blocks[0], blocks[1]}, .destinations = {blocks[2], blocks[0]}});
  CHECK(absl::IsInvalidArgument(also_source));
  CHECK(GetErrorDetail(also_source).index == 1);
  CHECK(GetErrorDetail(also_source).block_id == ToIndex(blocks[0].block));
}

TEST_CASE("CopyBlocks with a wrong entry in a later slice names it and changes nothing") {
  PoolFixture fixture(BigSpec());
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 6);
  Set(fixture, blocks[0].block, 0x11);

  const absl::Status bad_source = StartCopy(fixture.pool, fixture.pool, session,
                                            {.sources = {blocks[0], blocks[1], Unheld(7)},
                                             .destinations = {blocks[3], blocks[4], blocks[5]}})
                                      .Take();
  const absl::Status bad_destination =
      StartCopy(fixture.pool, fixture.pool, session,
                {.sources = {blocks[0], blocks[1], blocks[2]},
                 .destinations = {blocks[3], blocks[4], Unheld(7)}})
          .Take();

  for (const absl::Status& status : {bad_source, bad_destination}) {
    CHECK(absl::IsFailedPrecondition(status));
    CHECK(GetErrorDetail(status).reason == Reason::kNotHeld);
    CHECK(GetErrorDetail(status).index == 2);
    CHECK(GetErrorDetail(status).block_id == 7);
  }
  CHECK(fixture.IsFilled(blocks[3].block, 0x00));
}

TEST_CASE("CopyBlocks of more than a slice copies them all") {
  PoolFixture fixture(BigSpec(/*num_blocks=*/10));
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 10);
  for (uint32_t i = 0; i < 5; ++i) Set(fixture, blocks[i].block, static_cast<uint8_t>(i + 1));

  const std::vector<BlockRef> sources(blocks.begin(), blocks.begin() + 5);
  const std::vector<BlockRef> destinations(blocks.begin() + 5, blocks.end());
  REQUIRE(StartCopy(fixture.pool, fixture.pool, session,
                    {.sources = sources, .destinations = destinations})
              .Take()
              .ok());

  for (uint32_t i = 0; i < 5; ++i) {
    CAPTURE(i);
    CHECK(fixture.IsFilled(blocks[i + 5].block, static_cast<uint8_t>(i + 1)));
  }
}

TEST_CASE("CopyBlocks copies into another session's blocks where it is named, and only then") {
  PoolFixture fixture;
  const TestSession session(1);
  const TestSession other(2);
  const TestSession foreign(3, "foreign");
  fixture.Open(session);
  fixture.Open(other);
  fixture.Open(foreign);
  const std::vector<BlockRef> from = fixture.Alloc(session, 1);
  const std::vector<BlockRef> to = fixture.Alloc(other, 1);
  const std::vector<BlockRef> not_ours = fixture.Alloc(foreign, 1);
  Set(fixture, from[0].block, 0x11);
  const CopyLists lists{.sources = from, .destinations = to};

  const absl::Status unnamed = StartCopy(fixture.pool, fixture.pool, session, lists).Take();
  CHECK(GetErrorDetail(unnamed).reason == Reason::kNotHeld);
  const absl::Status unknown =
      StartCopy(fixture.pool, fixture.pool, session, lists, TestSession(9).id).Take();
  CHECK(GetErrorDetail(unknown).reason == Reason::kSessionUnknown);
  const absl::Status denied = StartCopy(fixture.pool, fixture.pool, session,
                                        {.sources = from, .destinations = not_ours}, foreign.id)
                                  .Take();
  CHECK(absl::IsPermissionDenied(denied));
  CHECK(fixture.IsFilled(to[0].block, 0x00));

  CHECK(StartCopy(fixture.pool, fixture.pool, session, lists, other.id).Take().ok());
  CHECK(fixture.IsFilled(to[0].block, 0x11));
}

TEST_CASE("CopyBlocks copies from pool to pool of one fingerprint") {
  PoolFixture from;
  PoolSpec spec = SmallSpec(/*num_blocks=*/3);
  spec.name = "other";
  PoolFixture to(spec);
  const TestSession session(1);
  const TestSession receiver(2);
  from.Open(session);
  to.Open(receiver);
  const std::vector<BlockRef> sources = from.Alloc(session, 2);
  const std::vector<BlockRef> destinations = to.Alloc(receiver, 2);
  Set(from, sources[0].block, 0x11);
  Set(from, sources[1].block, 0x22);

  // The same ids on both sides are not the same blocks.
  REQUIRE(StartCopy(from.pool, to.pool, session,
                    {.sources = {sources[1], sources[0]}, .destinations = destinations},
                    receiver.id)
              .Take()
              .ok());

  CHECK(to.IsFilled(destinations[0].block, 0x22));
  CHECK(to.IsFilled(destinations[1].block, 0x11));
  const absl::Status unnamed =
      StartCopy(from.pool, to.pool, session, {.sources = sources, .destinations = destinations})
          .Take();
  CHECK(GetErrorDetail(unnamed).reason == Reason::kSessionUnknown);
}

TEST_CASE("CopyBlocks between pools of other layouts or other numbers of shards is refused") {
  PoolFixture from;
  PoolSpec other_dtype = SmallSpec();
  other_dtype.dtype = "fp16";
  PoolSpec more_shards = SmallSpec();
  more_shards.devices = {"host", "host"};
  const TestSession session(1);
  from.Open(session);

  for (const PoolSpec& spec : {other_dtype, more_shards}) {
    PoolFixture to(spec);
    to.Open(session);
    const absl::Status status =
        StartCopy(from.pool, to.pool, session,
                  {.sources = from.Alloc(session, 1), .destinations = to.Alloc(session, 1)},
                  session.id)
            .Take();
    CHECK(absl::IsFailedPrecondition(status));
    CHECK(GetErrorDetail(status).reason == Reason::kLayoutMismatch);
  }
}

TEST_CASE("A copy between pools that is refused by one leaves nothing pinned in the other") {
  PoolFixture from;
  PoolFixture to;
  const TestSession session(1);
  from.Open(session);
  to.Open(session);
  const std::vector<BlockRef> held_from = from.Alloc(session, 1);
  const std::vector<BlockRef> held_to = to.Alloc(session, 1);

  CHECK_FALSE(StartCopy(from.pool, to.pool, session,
                        {.sources = held_from, .destinations = {Unheld(5)}}, session.id)
                  .Take()
                  .ok());
  CHECK_FALSE(StartCopy(from.pool, to.pool, session,
                        {.sources = {Unheld(5)}, .destinations = held_to}, session.id)
                  .Take()
                  .ok());

  // A pin that was left would keep them from being free.
  from.DecRef(session, held_from);
  to.DecRef(session, held_to);
  CHECK(from.pool->counts().free_blocks == 8);
  CHECK(to.pool->counts().free_blocks == 8);
}

// Each would hold the other's source and wait for its own destination, were there no order.
TEST_CASE("A copy from A to B and one from B to A over the same blocks both end") {
  PoolFixture a;
  PoolFixture b;
  const TestSession session(1);
  a.Open(session);
  b.Open(session);
  const std::vector<BlockRef> in_a = a.Alloc(session, 1);
  const std::vector<BlockRef> in_b = b.Alloc(session, 1);
  Set(a, in_a[0].block, 0x11);
  // Both are made to wait for fills, so that their pins come in turn and not at once.
  a.device.Hold();
  b.device.Hold();
  Answer<absl::Status> fill_a = a.StartFill(session, in_a, Fill::kZero);
  Answer<absl::Status> fill_b = b.StartFill(session, in_b, Fill::kPoison);
  Answer<absl::Status> there =
      StartCopy(a.pool, b.pool, session, {.sources = in_a, .destinations = in_b}, session.id);
  Answer<absl::Status> back =
      StartCopy(b.pool, a.pool, session, {.sources = in_b, .destinations = in_a}, session.id);

  b.device.Release();
  a.device.Release();

  CHECK(fill_a.count() == 1);
  CHECK(fill_b.count() == 1);
  REQUIRE(there.count() == 1);
  REQUIRE(back.count() == 1);
  CHECK(there.Take().ok());
  CHECK(back.Take().ok());
  // Whichever was first, the second copied what it had brought.
  CHECK(b.IsFilled(in_b[0].block, 0x00) == a.IsFilled(in_a[0].block, 0x00));
}

TEST_CASE("A copy that fails is DEVICE_FAILED with the device's message") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 2);
  fixture.device.FailNextOperation(absl::InternalError("the bus fell off"));

  const absl::Status status = StartCopy(fixture.pool, fixture.pool, session,
                                        {.sources = {blocks[0]}, .destinations = {blocks[1]}})
                                  .Take();

  CHECK(absl::IsFailedPrecondition(status));
  CHECK(GetErrorDetail(status).reason == Reason::kDeviceFailed);
  CHECK(status.message() == "the bus fell off");
}

TEST_CASE("A copy keeps both pools alive until its callback is over") {
  PoolFixture from;
  PoolFixture to;
  const TestSession session(1);
  from.Open(session);
  to.Open(session);
  const CopyLists lists{.sources = from.Alloc(session, 1), .destinations = to.Alloc(session, 1)};
  from.device.Hold();
  Answer<absl::Status> copy = StartCopy(from.pool, to.pool, session, lists, session.id);
  const std::weak_ptr<Pool> source = from.pool;
  const std::weak_ptr<Pool> destination = to.pool;

  from.pool.reset();
  to.pool.reset();
  CHECK_FALSE(source.expired());
  CHECK_FALSE(destination.expired());
  from.device.Release();

  CHECK(copy.Take().ok());
  CHECK(source.expired());
  CHECK(destination.expired());
}

}  // namespace
}  // namespace kvpool::test
