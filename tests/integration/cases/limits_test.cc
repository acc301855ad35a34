// Sizes at their edges: what is announced is accepted, what is beyond it is an error, and neither
// costs the connection.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/integration/support/node.h"
#include "tests/integration/support/test_device.h"
#include "tests/support/catch.h"

namespace kvpool::test {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// Whether the connection is the one that the session was attached on: the session would have ended
// with it.
bool IsSameConnection(Node& node, const RawSession& session) {
  const auto status = node.eyes().GetSession(session.id());
  return status.ok() && status->state() == v1::SessionStatus::STATE_ATTACHED;
}

v1::WriteBlocksRequest Piece(uint32_t block_id, uint64_t offset_bytes, std::string data) {
  v1::WriteBlocksRequest request;
  v1::BlockPiece& piece = *request.mutable_piece();
  piece.set_block_id(block_id);
  piece.set_side(v1::SIDE_K);
  piece.set_offset_bytes(offset_bytes);
  piece.set_data(std::move(data));
  return request;
}

// A byte that depends on where it is.
std::string Pattern(uint64_t first, uint64_t size) {
  std::string bytes(size, '\0');
  for (uint64_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((first + i) * 2654435761U >> 13);
  return bytes;
}

TEST_CASE("Lists and counts of the announced length are taken, one more is refused") {
  constexpr uint32_t kBlocks = 70'000;
  Node node({.pools_json = absl::StrCat(R"([{"name": "p", "num_blocks": )", kBlocks,
                                        R"(, "num_layers": 1, "dtype": "raw", "raw_token_bytes": 1,
                                           "v_mode": "V_MODE_NONE")",
                                        DevicesJson(), "}]")});
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  const uint32_t limit = session->opened().limits().max_blocks_per_call();
  CHECK(limit >= 65'536);
  CHECK(Said(session->Alloc(limit + 1)) == "INVALID_ARGUMENT");
  const auto blocks = session->Alloc(limit);
  REQUIRE(Said(blocks) == "OK");
  REQUIRE(std::cmp_equal(blocks->block_ids_size(), limit));

  const v1::Blocks one_more = Joined(*blocks, First(*blocks, 1));
  CHECK(Said(session->IncRef(one_more)) == "INVALID_ARGUMENT");
  CHECK(Said(session->IncRef(*blocks)) == "OK");
  CHECK(Said(session->DecRef(one_more)) == "INVALID_ARGUMENT");
  CHECK(Said(session->Fill(one_more, v1::FILL_ZERO)) == "INVALID_ARGUMENT");
  CHECK(Said(session->Fill(*blocks, v1::FILL_ZERO)) == "OK");
  CHECK(Said(session->Read(one_more)) == "INVALID_ARGUMENT");
  CHECK(Said(session->Copy(one_more, one_more)) == "INVALID_ARGUMENT");
  CHECK(Said(session->DecRef(*blocks)) == "OK");
  const auto last = session->DecRef(*blocks);
  REQUIRE(Said(last) == "OK");
  CHECK(last->freed() == limit);
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("Generations are as many as the ids, or none, and never 0") {
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  const v1::Blocks two = *session->Alloc(2);
  v1::Blocks fewer = two;
  fewer.mutable_generations()->Truncate(1);
  v1::Blocks more = two;
  more.add_generations(two.generations(0));
  v1::Blocks zero = two;
  zero.set_generations(1, 0);
  v1::Blocks stale = two;
  stale.set_generations(1, two.generations(1) + 1);
  CHECK(Said(session->DecRef(fewer)) == "INVALID_ARGUMENT");
  CHECK(Said(session->DecRef(more)) == "INVALID_ARGUMENT");
  CHECK(Said(session->DecRef(zero)) == "INVALID_ARGUMENT");
  CHECK(Said(session->DecRef(stale)) == "FAILED_PRECONDITION STALE_BLOCK");
  CHECK(node.Pool().held_blocks() == 2);
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("What a session is opened with is taken at its edges and refused beyond them") {
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  const auto open = [&](const v1::OpenSessionRequest& request) {
    const auto session = RawSession::Open(*client, request);
    if (session.ok()) CHECK((*session)->Close().ok());
    return Said(session);
  };
  v1::OpenSessionRequest request;
  request.set_client_name(std::string(63, 'n'));
  CHECK(open(request) == "OK");
  request.set_client_name(std::string(64, 'n'));
  CHECK(open(request) == "INVALID_ARGUMENT");
  request.set_client_name("line\nfeed");
  CHECK(open(request) == "INVALID_ARGUMENT");
  request.clear_client_name();

  for (const auto& [ttl_seconds, said] :
       std::vector<std::pair<int64_t, std::string>>{{0, "INVALID_ARGUMENT"},
                                                    {1, "OK"},
                                                    {3600, "OK"},
                                                    {3601, "INVALID_ARGUMENT"},
                                                    {-1, "INVALID_ARGUMENT"},
                                                    {INT64_MAX, "INVALID_ARGUMENT"}}) {
    CAPTURE(ttl_seconds);
    request.mutable_ttl()->set_seconds(ttl_seconds);
    CHECK(open(request) == said);
  }
  request.clear_ttl();
  request.set_guaranteed_blocks(4);
  CHECK(open(request) == "OK");
  request.set_guaranteed_blocks(5);
  CHECK(open(request) == "INVALID_ARGUMENT");
  request.clear_guaranteed_blocks();
  request.set_pool("nowhere");
  CHECK(open(request) == "NOT_FOUND");
  request.clear_pool();
  request.set_join_session_id("not an id");
  CHECK(open(request) == "INVALID_ARGUMENT");
  request.set_join_session_id(std::string(32, '0'));
  CHECK(open(request) == "NOT_FOUND SESSION_UNKNOWN");
  node.CheckAllIsBack();
}

TEST_CASE("Pieces of 4 MiB and a few bytes less or more are written and read back") {
  // A side of 16 MiB: 16 tokens of 1 MiB.
  Node node({.pools_json = absl::StrCat(
                 R"([{"name": "p", "num_blocks": 1, "num_layers": 1, "dtype": "raw",
                     "raw_token_bytes": )",
                 kMiB, R"(, "v_mode": "V_MODE_NONE")", DevicesJson(), "}]")});
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  REQUIRE(session->Attach().ok());
  const v1::Blocks block = *session->Alloc(1);
  for (const uint64_t size : {4 * kMiB - 1024, 4 * kMiB, 4 * kMiB + 1}) {
    CAPTURE(size);
    const std::string data = Pattern(size, size);
    const auto written = session->Write(0, 0, v1::SIDE_K, 12 * kMiB - size, data);
    REQUIRE(Said(written) == "OK");
    CHECK(*written == size);
    std::string side;
    for (const v1::BlockPiece& piece : Value(session->Read(block))) {
      CHECK(piece.data().size() < kMiB);
      CHECK(piece.offset_bytes() == side.size());
      side += piece.data();
    }
    REQUIRE(side.size() == 16 * kMiB);
    CHECK((side.substr(12 * kMiB - size, size) == data));
  }

  // A message over the announced length is gRPC's error, and the connection's end for nobody.
  const uint32_t max_message = session->opened().limits().max_message_bytes();
  CHECK(Said(session->Write(0, 0, v1::SIDE_K, 0, std::string(max_message, 'x'))) ==
        "RESOURCE_EXHAUSTED");
  CHECK(Said(session->Write(0, 0, v1::SIDE_K, 0, std::string(max_message - 1024, 'x'))) == "OK");
  CHECK(IsSameConnection(node, *session));
  CHECK(Said(session->Alloc(0)) == "OK");
  CHECK(session->Close().ok());
  CHECK(Said(session->stream().End()) == "OK");
  session->Detach();
  node.CheckAllIsBack();
}

TEST_CASE("Sixty-four MiB go in by a stream of pieces and come out the same") {
  constexpr uint64_t kSide = 64 * kMiB;
  Node node({.pools_json = absl::StrCat(
                 R"([{"name": "p", "num_blocks": 1, "num_layers": 1, "dtype": "raw",
                     "raw_token_bytes": )",
                 kSide / 16, R"(, "v_mode": "V_MODE_NONE")", DevicesJson(), "}]")});
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  const v1::Blocks block = *session->Alloc(1);
  const std::string bytes = Pattern(0, kSide);
  std::vector<v1::WriteBlocksRequest> messages;
  for (uint64_t offset = 0; offset < kSide; offset += 2 * kMiB) {
    messages.push_back(Piece(0, offset, bytes.substr(offset, 2 * kMiB)));
  }
  messages.front().set_session_id(session->id());
  const auto written = client->WriteBlocks(messages);
  REQUIRE(Said(written) == "OK");
  CHECK(*written == kSide);

  const auto pieces = session->Read(block);
  REQUIRE(Said(pieces) == "OK");
  uint64_t size = 0;
  bool is_same = true;
  for (const v1::BlockPiece& piece : *pieces) {
    is_same = is_same && piece.offset_bytes() == size &&
              bytes.compare(size, piece.data().size(), piece.data()) == 0;
    size += piece.data().size();
  }
  CHECK(size == kSide);
  CHECK(is_same);
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A million blocks are listed, and a session that holds them shows the first of them",
          "[host]") {
  constexpr uint32_t kBlocks = UnlessSanitized(1'000'000, 200'000);
  Node node({.pools_json = absl::StrCat(R"([{"name": "p", "num_blocks": )", kBlocks,
                                        R"(, "num_layers": 1, "dtype": "raw", "raw_token_bytes": 1,
                                           "v_mode": "V_MODE_NONE")",
                                        DevicesJson(), "}]")});
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  const uint32_t limit = session->opened().limits().max_blocks_per_call();
  for (uint32_t held = 0; held < kBlocks;) {
    const auto blocks = session->AllocUpTo(limit);
    REQUIRE(Said(blocks) == "OK");
    held += static_cast<uint32_t>(blocks->block_ids_size());
  }

  const auto status = node.eyes().GetSession(session->id());
  REQUIRE(Said(status) == "OK");
  CHECK(status->held_blocks() == kBlocks);
  CHECK(status->block_ids_size() == 65'536);
  CHECK(status->truncated());
  CHECK(std::ranges::is_sorted(status->block_ids()));
  v1::ListBlocksRequest request;
  request.set_pool("p");
  const auto listed = node.eyes().ListBlocks(request);
  REQUIRE(Said(listed) == "OK");
  CHECK(listed->size() == kBlocks);
  for (uint32_t id = 0; id < kBlocks; ++id) {
    const v1::BlockStatus& block = (*listed)[id];
    if (block.block_id() == id && block.state() == v1::BlockStatus::STATE_HELD &&
        block.ref_count() == 1) {
      continue;
    }
    FAIL(block.ShortDebugString() << " where block " << id << " should be held");
  }
  request.set_first(kBlocks - 1);
  CHECK(node.eyes().ListBlocks(request)->size() == 1);
  request.set_count(2);
  CHECK(Said(node.eyes().ListBlocks(request)) == "INVALID_ARGUMENT");
  request.set_first(0xFFFFFFFF);
  CHECK(Said(node.eyes().ListBlocks(request)) == "INVALID_ARGUMENT");
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A piece that passes its side's end is refused, however its numbers wrap") {
  Node node(/*num_blocks=*/2);  // A side has 1,024 bytes.
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  const v1::Blocks blocks = *session->Alloc(2);
  REQUIRE(session->Fill(blocks, v1::FILL_ZERO).ok());
  const std::string out_of_range = "OUT_OF_RANGE";

  CHECK(Said(session->Write(0, 0, v1::SIDE_K, 1'024, "x")) == out_of_range);
  CHECK(Said(session->Write(0, 0, v1::SIDE_K, 1'023, "xy")) == out_of_range);
  CHECK(Said(session->Write(0, 0, v1::SIDE_K, 0, std::string(1'025, 'x'))) == out_of_range);
  CHECK(Said(session->Write(0, 0, v1::SIDE_K, uint64_t{1} << 32, "x")) == out_of_range);
  CHECK(Said(session->Write(0, 0, v1::SIDE_K, (uint64_t{1} << 32) + 1, "x")) == out_of_range);
  CHECK(Said(session->Write(0, 0, v1::SIDE_K, uint64_t{1} << 63, "x")) == out_of_range);
  CHECK(Said(session->Write(0, 0, v1::SIDE_K, UINT64_MAX, "x")) == out_of_range);
  CHECK(Said(session->Write(0, 0, v1::SIDE_K, UINT64_MAX, "xy")) == out_of_range);
  CHECK(Said(session->Write(0, 0, v1::SIDE_K, UINT64_MAX - 6, "wrapped!")) == out_of_range);
  for (const v1::BlockPiece& piece : Value(session->Read(blocks))) {
    CHECK(piece.data() == std::string(piece.data().size(), '\0'));
  }
  CHECK(Said(session->Write(0, 0, v1::SIDE_K, 1'023, "x")) == "OK");
  CHECK(Said(session->Write(0, 0, v1::SIDE_K, 1'024, "")) == "OK");
  CHECK(Said(session->Write(0, 2, v1::SIDE_K, 0, "x")) == "INVALID_ARGUMENT");
  CHECK(Said(session->Write(0, 0xFFFFFFFF, v1::SIDE_K, 0, "x")) == "INVALID_ARGUMENT");
  CHECK(Said(session->Write(0, 0, v1::SIDE_UNSPECIFIED, 0, "x")) == "INVALID_ARGUMENT");
  CHECK(Said(session->Write(0, 0, static_cast<v1::Side>(7), 0, "x")) == "INVALID_ARGUMENT");
  v1::WriteBlocksRequest other_shard = Piece(0, 0, "x");
  other_shard.set_session_id(session->id());
  other_shard.mutable_piece()->set_shard(1);
  CHECK(Said(client->WriteBlocks({other_shard})) == "INVALID_ARGUMENT");
  CHECK(Said(client->WriteBlocks({})) == "INVALID_ARGUMENT");
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

}  // namespace
}  // namespace kvpool::test
