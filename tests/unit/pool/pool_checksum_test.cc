#include <string>
#include <vector>

#include "core/memory/checksum.h"
#include "tests/support/catch.h"
#include "tests/unit/pool/pool_fixture.h"

namespace kvpool::test {
namespace {

using LayerSums = absl::StatusOr<std::vector<LayerChecksum>>;
using BlockSums = absl::StatusOr<std::vector<BlockChecksum>>;

LayerSums SumLayers(const PoolFixture& fixture, std::vector<BlockRef> blocks, uint32_t boundary,
                    uint32_t shard = 0) {
  Answer<LayerSums> answer;
  fixture.pool->ChecksumLayers(std::move(blocks), boundary, shard, answer.callback());
  return answer.Take();
}

BlockSums SumBlocks(const PoolFixture& fixture, std::vector<BlockRef> blocks, uint32_t layer,
                    uint32_t shard = 0) {
  Answer<BlockSums> answer;
  fixture.pool->ChecksumBlocks(std::move(blocks), layer, shard, answer.callback());
  return answer.Take();
}

// Numbers that differ from place to place and are no NaNs.
void FillWithNumbers(const PoolFixture& fixture) {
  uint32_t next = 0;
  for (uint32_t shard = 0; shard < fixture.pool->layout().num_shards(); ++shard) {
    for (std::byte& byte : FakeDevice::Bytes(*fixture.pool->memory().regions()[shard])) {
      byte = static_cast<std::byte>((next * 31 + (next >> 7)) & 0x7E);
      ++next;
    }
  }
}

// What the checksum of one side of the blocks is to be.
SideChecksum Expected(const PoolFixture& fixture, std::span<const BlockRef> blocks, uint32_t layer,
                      Side side, uint32_t shard = 0) {
  const LayerLayout& layout = fixture.pool->layout().layers[layer];
  ChecksumBuilder builder(side == Side::kK ? layout.k.dtype : layout.v->dtype);
  for (const BlockRef& ref : blocks) builder.Add(fixture.Bytes(ref.block, layer, side, shard));
  return builder.Result();
}

TEST_CASE("ChecksumLayers sums each layer's sides up, the prefix apart from the suffix") {
  PoolSpec spec = SmallSpec();
  spec.devices = {"host", "host"};
  PoolFixture fixture(spec);
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> taken = fixture.Alloc(session, 4);
  FillWithNumbers(fixture);
  const std::vector<BlockRef> list = {taken[2], taken[0], taken[3]};
  const auto prefix = std::span(list).first(1);
  const auto suffix = std::span(list).subspan(1);

  const LayerSums sums = SumLayers(fixture, list, /*boundary=*/1, /*shard=*/1);

  REQUIRE(sums.ok());
  REQUIRE(sums->size() == 2);
  for (uint32_t layer = 0; layer < 2; ++layer) {
    CAPTURE(layer);
    CHECK((*sums)[layer].prefix_k == Expected(fixture, prefix, layer, Side::kK, 1));
    CHECK((*sums)[layer].prefix_v == Expected(fixture, prefix, layer, Side::kV, 1));
    CHECK((*sums)[layer].suffix_k == Expected(fixture, suffix, layer, Side::kK, 1));
    CHECK((*sums)[layer].suffix_v == Expected(fixture, suffix, layer, Side::kV, 1));
  }
  CHECK((*sums)[0].prefix_k.has_sums);
  CHECK((*sums)[0].prefix_k.crc32c != (*sums)[1].prefix_k.crc32c);
}

TEST_CASE("ChecksumLayers with a boundary beyond the list has an empty suffix, of zeros") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 2);
  FillWithNumbers(fixture);

  const LayerSums sums = SumLayers(fixture, blocks, /*boundary=*/99);

  REQUIRE(sums.ok());
  REQUIRE(sums->size() == 2);
  CHECK((*sums)[1].prefix_v == Expected(fixture, blocks, 1, Side::kV));
  CHECK((*sums)[1].suffix_k == Expected(fixture, {}, 1, Side::kK));
  CHECK((*sums)[1].suffix_k.sum_of_absolutes == 0.0);
}

TEST_CASE("ChecksumLayers of no blocks still has an entry a layer") {
  PoolFixture fixture;

  const LayerSums sums = SumLayers(fixture, {}, 0);

  REQUIRE(sums.ok());
  CHECK(sums->size() == 2);
}

TEST_CASE("ChecksumLayers of sides longer than a piece sums the whole up") {
  PoolFixture fixture(BigSpec(/*num_blocks=*/3));
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 3);
  FillWithNumbers(fixture);

  const LayerSums sums = SumLayers(fixture, blocks, 2);

  REQUIRE(sums.ok());
  REQUIRE(sums->size() == 1);
  CHECK((*sums)[0].prefix_k == Expected(fixture, std::span(blocks).first(2), 0, Side::kK));
  CHECK((*sums)[0].suffix_v == Expected(fixture, std::span(blocks).subspan(2), 0, Side::kV));
}

TEST_CASE("V that aliases K, or is not there, has sums of all zero") {
  for (const VMode mode : {VMode::kAliasesK, VMode::kNone}) {
    PoolSpec spec = SmallSpec();
    spec.v_mode = mode;
    PoolFixture fixture(spec);
    const TestSession session(1);
    fixture.Open(session);
    const std::vector<BlockRef> blocks = fixture.Alloc(session, 2);
    FillWithNumbers(fixture);

    const LayerSums sums = SumLayers(fixture, blocks, 1);

    REQUIRE(sums.ok());
    CHECK((*sums)[1].suffix_k == Expected(fixture, std::span(blocks).subspan(1), 1, Side::kK));
    CHECK((*sums)[1].prefix_v == SideChecksum{});
    CHECK((*sums)[1].suffix_v == SideChecksum{});
  }
}

TEST_CASE("ChecksumBlocks has an entry for each place in the list") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 3);
  FillWithNumbers(fixture);

  const BlockSums sums = SumBlocks(fixture, {blocks[2], blocks[0], blocks[2]}, /*layer=*/1);

  REQUIRE(sums.ok());
  REQUIRE(sums->size() == 3);
  CHECK((*sums)[0].k == Expected(fixture, std::span(blocks).subspan(2, 1), 1, Side::kK));
  CHECK((*sums)[1].v == Expected(fixture, std::span(blocks).first(1), 1, Side::kV));
  CHECK((*sums)[2].k == (*sums)[0].k);
}

TEST_CASE("Checksums refuse shards, layers and blocks that are not there") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 1);
  const BlockRef beyond{.block = BlockId{8}, .generation = Generation{}};

  CHECK(absl::IsInvalidArgument(SumLayers(fixture, blocks, 0, /*shard=*/1).status()));
  CHECK(absl::IsInvalidArgument(SumBlocks(fixture, blocks, 0, /*shard=*/1).status()));
  CHECK(absl::IsInvalidArgument(SumBlocks(fixture, blocks, /*layer=*/2).status()));
  const absl::Status status = SumLayers(fixture, {blocks[0], beyond}, 0).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(GetErrorDetail(status).index == 1);
  CHECK(GetErrorDetail(status).block_id == 8);
  const std::vector<BlockRef> too_many(65'537, blocks[0]);
  CHECK(absl::IsInvalidArgument(SumLayers(fixture, too_many, 0).status()));
}

TEST_CASE("Checksums of a free block are NOT_LIVE, and of another generation STALE_BLOCK") {
  PoolFixture fixture(SmallSpec(/*num_blocks=*/600));
  const TestSession session(1);
  fixture.Open(session);
  std::vector<BlockRef> blocks = fixture.Alloc(session, 500);

  blocks.push_back({.block = BlockId{500}, .generation = Generation{}});
  const absl::Status free = SumBlocks(fixture, blocks, 0).status();
  CHECK(absl::IsFailedPrecondition(free));
  CHECK(GetErrorDetail(free).reason == Reason::kNotLive);
  CHECK(GetErrorDetail(free).index == 500);
  CHECK(GetErrorDetail(free).block_id == 500);

  blocks.pop_back();
  blocks[400].generation = Generation{static_cast<uint64_t>(blocks[400].generation) + 1};
  const absl::Status stale = SumBlocks(fixture, blocks, 0).status();
  CHECK(absl::IsAborted(stale));
  CHECK(GetErrorDetail(stale).reason == Reason::kStaleBlock);
  CHECK(GetErrorDetail(stale).index == 400);
}

TEST_CASE("Checksums of blocks that change hands meanwhile are ABORTED, given generations or not") {
  for (const bool is_taken_again : {false, true}) {
    PoolFixture fixture(SmallSpec(/*num_blocks=*/2));
    const TestSession session(1);
    fixture.Open(session);
    const std::vector<BlockRef> blocks = fixture.Alloc(session, 2);
    fixture.device.Hold();
    Answer<BlockSums> answer;
    fixture.pool->ChecksumBlocks({{.block = BlockId{0}, .generation = Generation{}},
                                  {.block = BlockId{1}, .generation = Generation{}}},
                                 0, 0, answer.callback());
    REQUIRE(fixture.device.held_count() == 1);

    fixture.DecRef(session, std::span(blocks).subspan(1));
    if (is_taken_again) fixture.Alloc(session, 1, Fill::kAcrossTenants);
    fixture.device.Release();

    CHECK(answer.count() == 1);
    const absl::Status status = answer.Take().status();
    CHECK(absl::IsAborted(status));
    CHECK(GetErrorDetail(status).reason == Reason::kStaleBlock);
    CHECK(GetErrorDetail(status).index == 1);
    CHECK(GetErrorDetail(status).block_id == 1);
  }
}

TEST_CASE("Checksums wait for nobody and keep nobody waiting") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 1);
  fixture.device.Hold();
  Answer<LayerSums> sums;
  fixture.pool->ChecksumLayers(blocks, 0, 0, sums.callback());
  CHECK(fixture.device.held_count() == 1);

  Answer<absl::Status> fill = fixture.StartFill(session, blocks, Fill::kZero);
  CHECK(fixture.device.held_count() == 2);
  fixture.device.Release();

  CHECK(sums.Take().ok());
  CHECK(fill.Take().ok());
}

TEST_CASE("A checksum whose read fails is DEVICE_FAILED, once, and not a silent gap") {
  PoolFixture fixture;
  const TestSession session(1);
  fixture.Open(session);
  const std::vector<BlockRef> blocks = fixture.Alloc(session, 1);
  fixture.device.FailNextOperation(absl::InternalError("the bus fell off"));
  Answer<LayerSums> answer;

  fixture.pool->ChecksumLayers(blocks, 0, 0, answer.callback());

  CHECK(answer.count() == 1);
  const absl::Status status = answer.Take().status();
  CHECK(GetErrorDetail(status).reason == Reason::kDeviceFailed);
  CHECK(status.message() == "the bus fell off");
}

}  // namespace
}  // namespace kvpool::test
