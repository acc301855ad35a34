// A session's calls that move bytes, and its mapping.
#include <algorithm>
#include <string>
#include <vector>

#include "client/session.h"
#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/unit/client/fixture.h"

namespace kvpool::client {
namespace {

std::vector<std::byte> Pattern(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

TEST_CASE("A mapping is the daemon's own memory") {
  Fixture fixture;
  const auto session = fixture.Open();
  const auto leases = session->Alloc(2);
  REQUIRE(leases.ok());
  auto mapping = session->Map();
  REQUIRE(mapping.ok());
  const BlockId block = (*leases)[1].id();
  std::ranges::fill(mapping->mutable_v(2, block), std::byte{0x5A});

  const SideLayout& side = *session->layout().layers[2].v;
  const auto bytes = fixture.daemon.memory().subspan(
      side.offset_bytes + ToIndex(block) * side.stride_bytes, side.block_bytes);
  CHECK(std::ranges::count(bytes, std::byte{0x5A}) ==
        static_cast<std::ptrdiff_t>(side.block_bytes));
  CHECK(std::ranges::count(fixture.daemon.memory(), std::byte{0x5A}) ==
        static_cast<std::ptrdiff_t>(side.block_bytes));
  CHECK(mapping->access() == Mapping::Access::kReadWrite);
}

TEST_CASE("A mapping outlives its session") {
  Fixture fixture;
  auto session = fixture.Open();
  auto mapping = session->Map(0, Mapping::Access::kReadOnly);
  REQUIRE(mapping.ok());
  session.reset();
  CHECK(mapping->k(0, BlockId{0})[0] == std::byte{0});
}

TEST_CASE("A shard that the pool does not have is INVALID_ARGUMENT") {
  Fixture fixture;
  CHECK(absl::IsInvalidArgument(fixture.Open()->Map(1).status()));
  CHECK(fixture.daemon.RequestedRegions().empty());
}

TEST_CASE("Each shard is mapped from its own region") {
  PoolSpec spec;
  spec.name = "p";
  spec.num_layers = 1;
  spec.num_kv_heads = 1;
  spec.head_dim = 16;
  spec.num_blocks = 4;
  spec.devices = {"host", "host"};
  Fixture fixture({.spec = spec});
  const auto session = fixture.Open();
  const auto second = session->Map(1);
  const auto first = session->Map(0);
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(first->shard() == 0);
  CHECK(second->shard() == 1);
  CHECK(fixture.daemon.RequestedRegions() ==
        std::vector<uint64_t>{test::FakeDaemon::kFirstRegionId + 1,
                              test::FakeDaemon::kFirstRegionId});
}

TEST_CASE("Memory that is not sealed, or not of the size that was told, is not mapped") {
  test::FakeDaemon::Options options;
  SECTION("unsealed") { options.is_sealed = false; }
  SECTION("larger") { options.extra_bytes = 4096; }
  Fixture fixture(options);
  CHECK(absl::IsFailedPrecondition(fixture.Open()->Map().status()));
}

TEST_CASE("A daemon that refuses its memory, or gives none, is told so") {
  Fixture fixture;
  const auto session = fixture.Open();
  fixture.daemon.set_fd_answer(test::FakeFdSocket::Answer::kRefusal);
  CHECK(absl::IsNotFound(session->Map().status()));
  fixture.daemon.set_fd_answer(test::FakeFdSocket::Answer::kNoFd);
  CHECK(absl::IsInternal(session->Map().status()));
  fixture.daemon.set_fd_answer(test::FakeFdSocket::Answer::kRight);
  CHECK(session->Map().ok());
}

TEST_CASE("A session learns from the fd socket, too, that it has ended") {
  Fixture fixture;
  const auto session = fixture.Open();
  REQUIRE(session->alive());
  fixture.daemon.set_fd_answer(test::FakeFdSocket::Answer::kUnknownSession);
  CHECK(GetErrorDetail(session->Map().status()).reason == Reason::kSessionUnknown);
  CHECK_FALSE(session->alive());
}

TEST_CASE("FillBlocks and CopyBlocks name blocks and fill") {
  Fixture fixture;
  const auto session = fixture.Open();
  const auto leases = session->Alloc(2);
  REQUIRE(leases.ok());
  const auto mapping = session->Map();
  REQUIRE(mapping.ok());
  const std::vector<BlockRef> refs = Refs(*leases);

  CHECK(session->FillBlocks({&refs[0], 1}, Fill::kPoison).ok());
  const auto first = mapping->k(0, refs[0].block);
  const auto second = mapping->k(0, refs[1].block);
  CHECK(std::ranges::all_of(first, [](std::byte b) { return b == std::byte{0xFF}; }));
  CHECK(std::ranges::all_of(second, [](std::byte b) { return b == std::byte{0}; }));
  CHECK(session->CopyBlocks({&refs[0], 1}, {&refs[1], 1}).ok());
  CHECK(std::ranges::equal(first, second));
  CHECK(session->FillBlocks({&refs[1], 1}, Fill::kZero).ok());
  CHECK(std::ranges::all_of(second, [](std::byte b) { return b == std::byte{0}; }));
}

TEST_CASE("What WriteBlocks wrote ReadBlocks reads, piece by piece") {
  Fixture fixture;
  const auto session = fixture.Open();
  const auto leases = session->Alloc(2);
  REQUIRE(leases.ok());
  const std::vector<BlockRef> refs = Refs(*leases);
  const std::vector<std::byte> k = Pattern(session->layout().layers[1].k.block_bytes);
  const std::vector<std::byte> v = Pattern(10);
  const std::vector<BlockPiece> pieces = {
      {.block = refs[0].block, .layer = 1, .side = BlockSide::kK, .data = k},
      {.block = refs[1].block, .layer = 1, .side = BlockSide::kV, .offset_bytes = 3, .data = v}};
  CHECK(session->WriteBlocks(pieces).ok());

  struct Got {
    BlockId block;
    uint32_t layer;
    BlockSide side;
    std::vector<std::byte> data;
  };
  std::vector<Got> got;
  const std::vector<uint32_t> layers = {1};
  CHECK(session
            ->ReadBlocks(refs, layers, 0,
                         [&](const BlockPiece& piece) {
                           got.push_back({piece.block,
                                          piece.layer,
                                          piece.side,
                                          {piece.data.begin(), piece.data.end()}});
                           return absl::OkStatus();
                         })
            .ok());
  REQUIRE(got.size() == 4);  // K and V of two blocks.
  CHECK(got[0].block == refs[0].block);
  CHECK(got[0].side == BlockSide::kK);
  CHECK(got[0].data == k);
  CHECK(got[3].block == refs[1].block);
  CHECK(got[3].side == BlockSide::kV);
  CHECK(std::equal(v.begin(), v.end(), got[3].data.begin() + 3));
}

TEST_CASE("A piece of many messages arrives whole") {
  PoolSpec spec;
  spec.name = "p";
  spec.num_layers = 1;
  spec.dtype = "raw";
  spec.raw_token_bytes = 100'001;  // 16 tokens: 1,600,016 bytes a side.
  spec.num_blocks = 1;
  Fixture fixture({.spec = spec});
  const auto session = fixture.Open();
  const auto leases = session->Alloc(1);
  REQUIRE(leases.ok());
  const std::vector<std::byte> data = Pattern(1'600'016);
  const std::vector<BlockPiece> pieces = {{.block = (*leases)[0].id(), .data = data}};
  CHECK(session->WriteBlocks(pieces).ok());
  const auto mapping = session->Map(0, Mapping::Access::kReadOnly);
  REQUIRE(mapping.ok());
  CHECK(std::ranges::equal(mapping->k(0, (*leases)[0].id()), data));
}

TEST_CASE("A piece past its side's end is OUT_OF_RANGE; no pieces are no call") {
  Fixture fixture;
  const auto session = fixture.Open();
  const auto leases = session->Alloc(1);
  REQUIRE(leases.ok());
  const std::vector<std::byte> data(10);
  const std::vector<BlockPiece> pieces = {
      {.block = (*leases)[0].id(), .offset_bytes = ~uint64_t{0} - 5, .data = data}};
  CHECK(absl::IsOutOfRange(session->WriteBlocks(pieces)));
  CHECK(session->WriteBlocks({}).ok());
  CHECK(fixture.daemon.CallCount("WriteBlocks") == 1);
}

TEST_CASE("A sink that has enough ends the reading with its own status") {
  Fixture fixture;
  const auto session = fixture.Open();
  const auto leases = session->Alloc(8);
  REQUIRE(leases.ok());
  int pieces = 0;
  const absl::Status enough = absl::AbortedError("enough");
  CHECK(session->ReadBlocks(Refs(*leases), {}, 0, [&](const BlockPiece&) {
    return ++pieces == 2 ? enough : absl::OkStatus();
  }) == enough);
  CHECK(pieces == 2);
  CHECK(session->alive());
}

}  // namespace
}  // namespace kvpool::client
