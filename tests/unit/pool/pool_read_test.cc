#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/pool/block_reader.h"
#include "tests/support/catch.h"
#include "tests/unit/pool/pool_fixture.h"

namespace kvpool::test {
namespace {

using std::chrono::seconds;

// Writes a pattern over the whole of the blocks.
void WritePattern(PoolFixture& fixture, const TestSession& session,
                  std::span<const BlockRef> blocks, uint32_t seed) {
  const PoolLayout& layout = fixture.pool->layout();
  for (const BlockRef& ref : blocks) {
    for (uint32_t shard = 0; shard < layout.num_shards(); ++shard) {
      for (uint32_t layer = 0; layer < layout.layers.size(); ++layer) {
        PieceRange range{.shard = shard,
                         .block = ref.block,
                         .layer = layer,
                         .side = Side::kK,
                         .offset_bytes = 0,
                         .size_bytes = layout.layers[layer].k.block_bytes};
        REQUIRE(fixture.Write(session, MakePiece(range, seed)).ok());
        if (layout.spec.v_mode != VMode::kSeparate) continue;
        range.side = Side::kV;
        range.size_bytes = layout.layers[layer].v->block_bytes;
        REQUIRE(fixture.Write(session, MakePiece(range, seed)).ok());
      }
    }
  }
}

std::unique_ptr<Pool::Reader> OpenReader(PoolFixture& fixture, const TestSession& session,
                                         std::vector<BlockRef> blocks,
                                         std::vector<uint32_t> layers = {}, uint32_t shard = 0) {
  auto reader =
      fixture.pool->OpenReader(session.caller(), std::move(blocks), std::move(layers), shard);
  INFO(reader.status().ToString());
  REQUIRE(reader.ok());
  return *std::move(reader);
}

TEST_CASE("A reader gives blocks in order, layers ascending, K then V, each with its own bytes") {
  PoolSpec spec = SmallSpec();
  spec.dtype = "bf16k_turbo3v";  // V is shorter than K.
  spec.devices = {"host", "host"};
  PoolFixture fixture(spec);
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 3);
  WritePattern(fixture, session, blocks, 1);

  const auto pieces = ReadAll(*OpenReader(fixture, session, {blocks[2], blocks[0]}, {}, 1));

  REQUIRE(pieces.ok());
  REQUIRE(pieces->size() == 2 * 2 * 2);
  for (size_t i = 0; i < pieces->size(); ++i) {
    CAPTURE(i);
    const PieceRange& range = (*pieces)[i].range;
    CHECK(range.shard == 1);
    CHECK(range.block == (i < 4 ? BlockId{2} : BlockId{0}));
    CHECK(range.layer == (i / 2) % 2);
    CHECK(range.side == (i % 2 == 0 ? Side::kK : Side::kV));
    CHECK(range.offset_bytes == 0);
    CHECK(range.size_bytes == (i % 2 == 0 ? 512 : 96 + 16));
    CHECK((*pieces)[i].data == MakePattern(range, 1));
  }
}

TEST_CASE("A reader of named layers gives those") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 1);
  WritePattern(fixture, session, blocks, 1);

  const auto pieces = ReadAll(*OpenReader(fixture, session, blocks, {1}));

  REQUIRE(pieces.ok());
  REQUIRE(pieces->size() == 2);
  for (const BlockPiece& piece : *pieces) {
    CHECK(piece.range.layer == 1);
    CHECK(piece.data == MakePattern(piece.range, 1));
  }
}

TEST_CASE("A reader gives no V that aliases K, and none that is not there") {
  for (const VMode mode : {VMode::kAliasesK, VMode::kNone}) {
    PoolSpec spec = SmallSpec();
    spec.v_mode = mode;
    PoolFixture fixture(spec);
    const TestSession session(1);
    fixture.Open(session);
    const std::vector<BlockRef> blocks = fixture.Alloc(session, 1);

    const auto pieces = ReadAll(*OpenReader(fixture, session, blocks));

    REQUIRE(pieces.ok());
    REQUIRE(pieces->size() == 2);
    CHECK((*pieces)[0].range.side == Side::kK);
    CHECK((*pieces)[1].range.side == Side::kK);
  }
}

TEST_CASE("A reader cuts a long side into pieces under 1 MiB") {
  PoolFixture fixture(BigSpec());
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 1);
  WritePattern(fixture, session, blocks, 3);

  const auto pieces = ReadAll(*OpenReader(fixture, session, blocks));

  REQUIRE(pieces.ok());
  REQUIRE(pieces->size() == 6);
  uint64_t offset_bytes = 0;
  for (size_t i = 0; i < 6; ++i) {
    CAPTURE(i);
    const BlockPiece& piece = (*pieces)[i];
    if (i == 3) offset_bytes = 0;
    CHECK(piece.range.offset_bytes == offset_bytes);
    CHECK(piece.range.size_bytes == (i % 3 == 2 ? 8192 : kMaxPieceBytes));
    CHECK(piece.range.size_bytes < (1 << 20));
    CHECK(piece.data == MakePattern(piece.range, 3));
    offset_bytes += piece.range.size_bytes;
  }
}

TEST_CASE("A reader of no blocks is at its end") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);

  const auto pieces = ReadAll(*OpenReader(fixture, session, {}));

  REQUIRE(pieces.ok());
  CHECK(pieces->empty());
}

TEST_CASE("OpenReader refuses shards, layers and blocks that are not there") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 2);
  const auto open = [&](std::vector<BlockRef> list, std::vector<uint32_t> layers, uint32_t shard) {
    return fixture.pool->OpenReader(session.caller(), std::move(list), std::move(layers), shard)
        .status();
  };

  CHECK(absl::IsInvalidArgument(open(blocks, {}, 1)));
  CHECK(absl::IsInvalidArgument(open(blocks, {2}, 0)));
  CHECK(absl::IsInvalidArgument(open(blocks, {1, 0}, 0)));
  CHECK(absl::IsInvalidArgument(open(blocks, {1, 1}, 0)));
  CHECK(absl::IsInvalidArgument(open({{.block = BlockId{8}, .generation = Generation{}}}, {}, 0)));
  const absl::Status not_held =
      open({blocks[0], {.block = BlockId{5}, .generation = Generation{}}}, {}, 0);
  CHECK(GetErrorDetail(not_held).reason == Reason::kNotHeld);
  CHECK(GetErrorDetail(not_held).index == 1);
  BlockRef stale = blocks[1];
  stale.generation = Generation{static_cast<uint64_t>(stale.generation) + 1};
  const absl::Status is_stale = open({blocks[0], stale}, {}, 0);
  CHECK(GetErrorDetail(is_stale).reason == Reason::kStaleBlock);
  CHECK(GetErrorDetail(is_stale).index == 1);
  CHECK(GetErrorDetail(fixture.pool->OpenReader(TestSession(2).caller(), {}, {}, 0).status())
            .reason == Reason::kSessionUnknown);
}

TEST_CASE("A reader whose block is let go is ABORTED, and stays so") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 2);
  const auto reader = OpenReader(fixture, session, blocks);
  Answer<PieceResult> first;
  reader->Next(first.callback());
  REQUIRE(first.Take().ok());

  fixture.DecRef(session, std::span(blocks).first(1));

  for (int attempt = 0; attempt < 2; ++attempt) {
    const absl::Status status = ReadAll(*reader).status();
    CHECK(absl::IsAborted(status));
    CHECK(GetErrorDetail(status).reason == Reason::kNotHeld);
    CHECK(GetErrorDetail(status).index == 0);
  }
}

// Its generations are those of the start, given or not.
TEST_CASE("A reader whose block is let go and taken again is ABORTED, not of two minds") {
  PoolFixture fixture(SmallSpec(/*num_blocks=*/2));
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 2);
  WritePattern(fixture, session, blocks, 1);
  std::vector<BlockRef> without_generations = blocks;
  for (BlockRef& ref : without_generations) ref.generation = Generation{};
  const auto reader = OpenReader(fixture, session, without_generations);
  Answer<PieceResult> piece;
  for (int i = 0; i < 5; ++i) {
    reader->Next(piece.callback());
    REQUIRE(piece.Take().ok());
  }

  fixture.DecRef(session, std::span(blocks).subspan(1));
  const std::vector<BlockRef> again = fixture.Alloc(session, 1);
  REQUIRE(again[0].block == blocks[1].block);
  WritePattern(fixture, session, again, 2);
  const absl::Status status = ReadAll(*reader).status();

  CHECK(absl::IsAborted(status));
  CHECK(GetErrorDetail(status).reason == Reason::kStaleBlock);
  CHECK(GetErrorDetail(status).index == 1);
}

TEST_CASE("A piece that was being read as its block was let go is not given") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 1);
  const auto reader = OpenReader(fixture, session, blocks);
  fixture.device.Hold();
  Answer<PieceResult> piece;
  reader->Next(piece.callback());
  REQUIRE(fixture.device.held_count() == 1);

  fixture.DecRef(session, blocks);
  CHECK(fixture.pool->GetBlock(blocks[0].block).state == BlockState::kQuarantined);
  fixture.device.Release();

  CHECK(piece.count() == 1);
  CHECK(absl::IsAborted(piece.Take().status()));
  CHECK(fixture.pool->GetBlock(blocks[0].block).state == BlockState::kFree);
}

TEST_CASE("A piece that was being read as its session ended is not given") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 1);
  const auto reader = OpenReader(fixture, session, blocks);
  fixture.device.Hold();
  Answer<PieceResult> piece;
  reader->Next(piece.callback());

  REQUIRE(fixture.pool->CloseSession(session.caller()).ok());
  fixture.device.Release();

  CHECK(piece.count() == 1);
  CHECK_FALSE(piece.Take().ok());
  CHECK(fixture.pool->counts().free_blocks == 8);
}

TEST_CASE("A reader waits for a writer of its block, and readers do not wait for each other") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 1);
  const auto first = OpenReader(fixture, session, blocks);
  const auto second = OpenReader(fixture, session, blocks);
  fixture.device.Hold();
  Answer<absl::Status> fill = fixture.StartFill(session, blocks, Fill::kPoison);
  Answer<PieceResult> first_piece;
  Answer<PieceResult> second_piece;
  first->Next(first_piece.callback());
  second->Next(second_piece.callback());
  CHECK(fixture.device.held_count() == 1);

  REQUIRE(fixture.device.CompleteOne());
  CHECK(fill.count() == 1);
  CHECK(fixture.device.held_count() == 2);
  fixture.device.Release();

  const PieceResult piece = first_piece.Take();
  REQUIRE(piece.ok());
  CHECK((*piece)->data == std::string(512, '\xFF'));
  CHECK(second_piece.Take().ok());
}

TEST_CASE("A read that fails is DEVICE_FAILED with the device's message") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 1);
  const auto reader = OpenReader(fixture, session, blocks);
  fixture.device.FailNextOperation(absl::InternalError("the bus fell off"));

  const absl::Status status = ReadAll(*reader).status();

  CHECK(absl::IsFailedPrecondition(status));
  CHECK(GetErrorDetail(status).reason == Reason::kDeviceFailed);
  CHECK(status.message() == "the bus fell off");
  CHECK(fixture.StartFill(session, blocks, Fill::kZero).Take().ok());
}

TEST_CASE("A session does not expire while its reader lives") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session, ProcessId{1}, seconds(10));
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 1);
  auto reader = OpenReader(fixture, session, blocks);

  fixture.time = Duration(seconds(100)).count();
  fixture.pool->Advance();
  CHECK(fixture.observer.Take().empty());
  CHECK(ReadAll(*reader).ok());
  reader.reset();
  fixture.time = Duration(seconds(110)).count();
  fixture.pool->Advance();

  CHECK_FALSE(fixture.observer.Take().empty());
}

TEST_CASE("A reader may go while a piece is being read, and the pool stays until it is over") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 1);
  auto reader = OpenReader(fixture, session, blocks);
  fixture.device.Hold();
  Answer<PieceResult> piece;
  reader->Next(piece.callback());
  const std::weak_ptr<Pool> pool = fixture.pool;

  reader.reset();
  fixture.pool.reset();
  CHECK_FALSE(pool.expired());
  fixture.device.Release();

  CHECK(piece.count() == 1);
  CHECK(piece.Take().ok());
  CHECK(pool.expired());
}

TEST_CASE("A reader's callbacks that ask for the next piece do not nest") {
  PoolSpec spec = SmallSpec(/*num_blocks=*/1024);
  PoolFixture fixture(spec);
  const TestSession session(1);
  fixture.Open(session);
  const auto reader = OpenReader(fixture, session, fixture.Alloc(session, 1024));
  int pieces = 0;
  int depth = 0;
  int deepest = 0;
  std::function<void(PieceResult)> next = [&](const PieceResult& piece) {
    deepest = std::max(deepest, ++depth);
    if (piece.ok() && piece->has_value()) {
      ++pieces;
      reader->Next(next);
    }
    --depth;
  };

  reader->Next(next);

  CHECK(pieces == 1024 * 4);
  CHECK(deepest == 1);
}

}  // namespace
}  // namespace kvpool::test
