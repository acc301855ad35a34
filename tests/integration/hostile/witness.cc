#include "tests/integration/hostile/witness.h"

#include <vector>

#include "tests/support/catch.h"

namespace kvpool::test {
namespace {

// Of PoolJson's pools.
constexpr uint32_t kLayers = 2;
constexpr uint64_t kSideBytes = 1'024;

// A byte that depends on all that says where it is.
char Pattern(const v1::BlockPiece& piece, size_t index) {
  const uint64_t place = piece.offset_bytes() + index;
  const uint64_t side = (uint64_t{piece.block_id()} * kLayers + piece.layer()) * 2 +
                        (piece.side() == v1::SIDE_V ? 1 : 0);
  return static_cast<char>((side * kSideBytes + place) * 2654435761U >> 13);
}

}  // namespace

Witness::Witness(Node& node, const std::string& pool) : client_(node.Connect()) {
  v1::OpenSessionRequest request;
  request.set_pool(pool);
  request.set_client_name("witness");
  request.set_guaranteed_blocks(kGuaranteed);
  auto session = RawSession::Open(*client_, std::move(request));
  REQUIRE(Said(session) == "OK");
  session_ = *std::move(session);
  REQUIRE(Said(session_->Attach()) == "OK");
  auto blocks = session_->Alloc(kHeld);
  REQUIRE(Said(blocks) == "OK");
  blocks_ = *std::move(blocks);
  Write();
}

void Witness::Write() {
  std::vector<v1::WriteBlocksRequest> messages;
  for (const uint32_t block : blocks_.block_ids()) {
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      for (const v1::Side side : {v1::SIDE_K, v1::SIDE_V}) {
        v1::WriteBlocksRequest& message = messages.emplace_back();
        message.set_session_id(session_->id());
        v1::BlockPiece& piece = *message.mutable_piece();
        piece.set_block_id(block);
        piece.set_layer(layer);
        piece.set_side(side);
        std::string bytes(kSideBytes, '\0');
        for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = Pattern(piece, i);
        piece.set_data(std::move(bytes));
      }
    }
  }
  REQUIRE(Said(client_->WriteBlocks(messages)) == "OK");
}

void Witness::CheckBytes(
    const std::function<char(const v1::BlockPiece& piece, size_t index)>& expected) {
  const auto pieces = session_->Read(blocks_);
  REQUIRE(Said(pieces) == "OK");
  size_t size = 0;
  size_t wrong_count = 0;
  for (const v1::BlockPiece& piece : *pieces) {
    size += piece.data().size();
    for (size_t i = 0; i < piece.data().size(); ++i) {
      if (piece.data()[i] != expected(piece, i)) ++wrong_count;
    }
  }
  CHECK(size == kHeld * kLayers * 2 * kSideBytes);
  CHECK(wrong_count == 0);
}

void Witness::Check() {
  CheckBytes(Pattern);
  const auto more = session_->Alloc(kGuaranteed - kHeld);
  REQUIRE(Said(more) == "OK");
  for (const uint32_t block : more->block_ids()) {
    CHECK(std::ranges::count(blocks_.block_ids(), block) == 0);
  }
  CHECK(Said(session_->DecRef(*more)) == "OK");
}

void Witness::CheckOverwritten(char byte) {
  CheckBytes([byte](const v1::BlockPiece& /*piece*/, size_t /*index*/) { return byte; });
  Write();
  Check();
}

void Witness::Close() { CHECK(Said(session_->Close()) == "OK"); }

}  // namespace kvpool::test
