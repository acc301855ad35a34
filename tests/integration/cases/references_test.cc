// Counting references: double frees, strangers, races.
#include <future>
#include <thread>
#include <vector>

#include "core/error.h"
#include "tests/integration/support/node.h"
#include "tests/support/catch.h"

namespace kvpool::test {
namespace {

TEST_CASE("A block that is let go twice is free once") {
  Node node(/*num_blocks=*/8);
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  const v1::Blocks block = *session->Alloc(1);

  const auto first = session->DecRef(block);
  REQUIRE(first.ok());
  CHECK(first->freed() == 1);
  CHECK(first->available() == 8);
  CHECK(Said(session->DecRef(block)) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(Said(session->DecRef(Id(block.block_ids(0)))) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(node.FreeBlocks() == 8);
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A list that lets go more than is held changes nothing") {
  Node node(/*num_blocks=*/8);
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  const v1::Blocks blocks = *session->Alloc(2);
  v1::Blocks list = blocks;
  list.add_block_ids(blocks.block_ids(0));
  list.add_generations(blocks.generations(0));

  const auto refused = session->DecRef(list);
  CHECK(Said(refused) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(GetErrorDetail(refused.status()).index == 2);
  CHECK(GetErrorDetail(refused.status()).block_id == blocks.block_ids(0));
  CHECK(node.Pool().held_blocks() == 2);
  CHECK(node.eyes().GetBlock("p", blocks.block_ids(0))->ref_count() == 1);
  CHECK(node.eyes().GetBlock("p", blocks.block_ids(1))->ref_count() == 1);
  node.CheckCounts();

  // What is free by the books can be had.
  CHECK(session->Alloc(6).ok());
  CHECK(Said(session->Alloc(1)) == "RESOURCE_EXHAUSTED POOL_FULL");
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A list may let go of a block as often as it is held") {
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  const v1::Blocks block = *session->Alloc(1);
  REQUIRE(session->IncRef(Joined(block, block)).ok());

  const auto answer = session->DecRef(Joined(Joined(block, block), block));
  REQUIRE(answer.ok());
  CHECK(answer->freed() == 1);
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A session can do nothing with a block that another one holds") {
  Node node(/*num_blocks=*/8);
  const auto client = node.Connect();
  const auto owner = *RawSession::Open(*client, {});
  const auto stranger = *RawSession::Open(*client, {});
  const v1::Blocks block = *owner->Alloc(1);
  const uint32_t id = block.block_ids(0);
  REQUIRE(owner->Fill(block, v1::FILL_POISON).ok());

  CHECK(Said(stranger->DecRef(block)) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(Said(stranger->DecRef(Id(id))) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(Said(stranger->IncRef(Id(id))) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(Said(stranger->Read(block)) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(Said(stranger->Fill(block, v1::FILL_ZERO)) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(Said(stranger->Write(id, 0, v1::SIDE_K, 0, "x")) == "FAILED_PRECONDITION NOT_HELD");
  const v1::Blocks own = *stranger->Alloc(1);
  CHECK(Said(stranger->Copy(block, own)) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(Said(stranger->Copy(own, block)) == "FAILED_PRECONDITION NOT_HELD");

  CHECK(node.eyes().GetBlock("p", id)->ref_count() == 1);
  const auto pieces = owner->Read(block);
  REQUIRE(pieces.ok());
  for (const v1::BlockPiece& piece : *pieces) {
    CHECK(piece.data() == std::string(piece.data().size(), '\xFF'));
  }
  CHECK(owner->Close().ok());
  CHECK(stranger->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("An id beyond the pool is refused whoever names it") {
  Node node(/*num_blocks=*/8);
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  REQUIRE(session->Alloc(8).ok());

  for (const uint32_t id : {8U, 0x7FFFFFFFU, 0x80000000U, 0xFFFFFFFFU}) {
    CAPTURE(id);
    v1::Blocks with_generation = Id(id);
    with_generation.add_generations(1);
    CHECK(Said(session->DecRef(Id(id))) == "INVALID_ARGUMENT");
    CHECK(Said(session->IncRef(with_generation)) == "INVALID_ARGUMENT");
    CHECK(Said(session->Read(Id(id))) == "INVALID_ARGUMENT");
    CHECK(Said(session->Fill(Id(id), v1::FILL_ZERO)) == "INVALID_ARGUMENT");
    CHECK(Said(session->Copy(Id(0), Id(id))) == "INVALID_ARGUMENT");
    CHECK(Said(session->Write(id, 0, v1::SIDE_K, 0, "x")) == "INVALID_ARGUMENT");
    CHECK(Said(node.eyes().GetBlock("p", id)) == "INVALID_ARGUMENT");
  }
  CHECK(node.Pool().held_blocks() == 8);
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("Releases beyond one's own leave the other holder's reference") {
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  const auto first = *RawSession::Open(*client, {});
  const auto second = *RawSession::Open(*client, {});
  const v1::Blocks block = *first->Alloc(1);
  REQUIRE(second->IncRef(block).ok());

  CHECK(Said(first->DecRef(block)) == "OK");
  CHECK(Said(first->DecRef(block)) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(Said(first->DecRef(block)) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(node.eyes().GetBlock("p", block.block_ids(0))->ref_count() == 1);
  CHECK(node.Pool().held_blocks() == 1);
  node.CheckCounts();
  CHECK(Said(second->DecRef(block)) == "OK");
  CHECK(first->Close().ok());
  CHECK(second->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("Block 0 is a block like any other") {
  Node node(/*num_blocks=*/3);
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});

  CHECK(Said(session->DecRef(Id(0))) == "FAILED_PRECONDITION NOT_HELD");
  const v1::Blocks all = *session->Alloc(3);
  CHECK(all.block_ids(0) == 0);
  CHECK(all.block_ids(1) == 1);
  CHECK(all.block_ids(2) == 2);
  CHECK(Said(session->Write(0, 0, v1::SIDE_K, 0, "x")) == "OK");
  CHECK(Said(session->DecRef(Id(0))) == "OK");
  CHECK(session->Alloc(1)->block_ids(0) == 0);
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

// Whichever comes first: each block is freed once, and the loser is told one clear thing.
TEST_CASE("A session that ends while its blocks are let go frees each block once") {
  constexpr int kRounds = UnlessSanitized(60, 20);
  Node node(/*num_blocks=*/100);
  const auto client = node.Connect();
  const auto other = node.Connect();
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const auto session = *RawSession::Open(*client, {});
    const bool by_stream = round % 2 == 0;
    if (by_stream) REQUIRE(session->Attach().ok());
    const v1::Blocks blocks = *session->Alloc(100);

    auto let_go = std::async(std::launch::async, [&] {
      v1::DecRefRequest request;
      request.set_session_id(session->id());
      *request.mutable_blocks() = blocks;
      return Said(other->DecRef(request));
    });
    if (by_stream) {
      session->Detach();
    } else {
      CHECK(session->Close().ok());
    }
    const std::string said = let_go.get();
    CHECK((said == "OK" || said == "NOT_FOUND SESSION_UNKNOWN"));
    // A broken stream leaves this process's claims, which it ends here.
    session->Close().IgnoreError();
    REQUIRE(node.BecomeFree(100));
    node.CheckCounts();
  }
  node.CheckAllIsBack();
}

TEST_CASE("Thousands of sessions under one name leave nothing behind") {
  constexpr int kSessions = UnlessSanitized(3'000, 500);
  Node node(/*num_blocks=*/8);
  const auto client = node.Connect();
  v1::OpenSessionRequest request;
  request.set_client_name("w0");
  uint64_t resident_before = 0;
  for (int i = 0; i < kSessions; ++i) {
    const auto session = RawSession::Open(*client, request);
    REQUIRE(session.ok());
    const auto blocks = (*session)->Alloc(2);
    REQUIRE(blocks.ok());
    REQUIRE((*session)->DecRef(First(*blocks, 1)).ok());
    REQUIRE((*session)->Close().ok());
    // By then what grows once has grown.
    if (i == kSessions / 2) resident_before = node.daemon().ResidentBytes();
  }
  // A session that stayed would be some hundred bytes at least, with its id and name in three
  // tables: half of them, half a megabyte.
  if (!kIsSanitized) {
    CHECK(node.daemon().ResidentBytes() < resident_before + 512 * 1024);
  }
  node.CheckAllIsBack();
}

}  // namespace
}  // namespace kvpool::test
