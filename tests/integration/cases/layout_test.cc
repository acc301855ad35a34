// Geometry: what workers and daemon must agree on.
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "tests/integration/support/node.h"
#include "tests/integration/support/test_device.h"
#include "tests/support/catch.h"

namespace kvpool::test {
namespace {

// All bytes of a block, in the order in which they are read.
std::string Bytes(RawSession& session, const v1::Blocks& block) {
  std::string bytes;
  const auto pieces = session.Read(block);
  REQUIRE(Said(pieces) == "OK");
  for (const v1::BlockPiece& piece : *pieces) bytes += piece.data();
  return bytes;
}

TEST_CASE("A worker that expects another layout is refused, with both fingerprints") {
  Node node(
      {.pools_json =
           "[" + PoolJson("p", 4) + ", " + PoolJson("blocks32", 4, R"(, "block_size": 32)") + ", " +
           PoolJson("block-major", 4, R"(, "memory_order": "MEMORY_ORDER_BLOCK_MAJOR")") + ", " +
           R"({"name": "layers4", "num_blocks": 4, "num_layers": 4, "num_kv_heads": 2,
               "head_dim": 16, "dtype": "bf16")" +
           DevicesJson() + "}, " +
           R"({"name": "fp16", "num_blocks": 4, "num_layers": 2, "num_kv_heads": 2,
               "head_dim": 16, "dtype": "fp16")" +
           DevicesJson() + "}]"});
  const std::string fingerprint = node.Pool("p").layout().fingerprint();
  const auto client = node.Connect();
  v1::OpenSessionRequest request;
  request.set_expected_fingerprint(fingerprint);
  REQUIRE(Said((*RawSession::Open(*client, request))->Close()) == "OK");
  for (const std::string pool : {"blocks32", "block-major", "layers4", "fp16"}) {
    CAPTURE(pool);
    request.set_pool(pool);
    const auto refused = client->OpenSession(request);
    CHECK(Said(refused) == "FAILED_PRECONDITION LAYOUT_MISMATCH");
    CHECK(absl::StrContains(refused.status().message(), fingerprint));
    CHECK(absl::StrContains(refused.status().message(), node.Pool(pool).layout().fingerprint()));
  }
  node.CheckAllIsBack();
}

TEST_CASE("Every shard has as many blocks, and no id beyond them is handed out", "[host]") {
  // What fits in 10,240 bytes of each: two blocks of 4,096, sides at multiples of 256.
  Node node({.pools_json = R"([{"name": "p", "num_layers": 2, "num_kv_heads": 2, "head_dim": 16,
                              "dtype": "bf16", "memory_bytes": 10240,
                              "devices": ["host", "host"]}])"});
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  CHECK(session->opened().layout().num_blocks() == 2);
  CHECK(session->opened().regions_size() == 2);
  CHECK(session->Alloc(2).ok());
  CHECK(Said(session->Alloc(1)) == "RESOURCE_EXHAUSTED POOL_FULL");

  // A block's shards are apart.
  v1::WriteBlocksRequest write;
  write.set_session_id(session->id());
  write.mutable_piece()->set_side(v1::SIDE_K);
  write.mutable_piece()->set_shard(1);
  write.mutable_piece()->set_data("shard 1");
  REQUIRE(Said(client->WriteBlocks({write})) == "OK");
  v1::ReadBlocksRequest read;
  read.set_session_id(session->id());
  *read.mutable_blocks() = Id(0);
  CHECK(client->ReadBlocks(read)->at(0).data().substr(0, 7) == std::string(7, '\0'));
  read.set_shard(1);
  CHECK(client->ReadBlocks(read)->at(0).data().substr(0, 7) == "shard 1");
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A wrong spec is refused by the name of the field, and nothing is made") {
  Node node(/*num_blocks=*/4);
  struct Wrong {
    std::string spec;
    std::string field;
  };
  const std::vector<Wrong> specs = {
      {R"({"name": "Q", "num_blocks": 1, "num_layers": 1, "num_kv_heads": 1, "head_dim": 16})",
       "name"},
      {R"({"name": "q", "num_layers": 1, "num_kv_heads": 1, "head_dim": 16})", "size"},
      {PoolJson("q", 0), "num_blocks"},
      {PoolJson("q", 4, R"(, "block_size": 0)"), "block_size"},
      {R"({"name": "q", "num_blocks": 1, "num_layers": 0, "num_kv_heads": 1, "head_dim": 16})",
       "num_layers"},
      {R"({"name": "q", "num_blocks": 1, "num_layers": 1, "num_kv_heads": 0, "head_dim": 16})",
       "num_kv_heads"},
      {PoolJson("q", 4, R"(, "layers": [{"first": 0, "last": 2, "head_dim": 8}])"),
       "layers[0].last"},
      {PoolJson("q", 4, R"(, "layers": [{"first": 0, "last": 0, "head_dim": 8},
                                        {"first": 0, "last": 1, "head_dim": 8}])"),
       "layers[1].first"},
      {PoolJson("q", 4, R"(, "devices": ["host", "tape"])"), "devices[1]"},
      {PoolJson("q", 4, R"(, "raw_token_bytes": 4)"), "raw_token_bytes"},
  };
  for (const Wrong& wrong : specs) {
    CAPTURE(wrong.spec);
    const absl::Status refused = node.eyes().CreatePool(wrong.spec);
    CHECK(Said(refused) == "INVALID_ARGUMENT");
    CHECK(absl::StrContains(refused.message(), wrong.field));
    CHECK(Said(node.eyes().GetPool("q")) == "NOT_FOUND");
  }
  CHECK(Said(node.eyes().CreatePool(PoolJson("p", 4))) == "ALREADY_EXISTS");
  // Two sides of a GiB a layer: two PiB in all.
  CHECK(Said(node.eyes().CreatePool(
            R"({"name": "q", "num_blocks": 1024, "num_layers": 1024, "num_kv_heads": 1024,
                "head_dim": 65536})")) == "RESOURCE_EXHAUSTED");
  node.CheckAllIsBack();
}

TEST_CASE("A pool without V has no V to write, and counts no bytes for it") {
  Node node({.pools_json = OnePool(4, R"(, "v_mode": "V_MODE_NONE")")});
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  REQUIRE(session->Alloc(1).ok());
  CHECK(node.Pool().layout().block_bytes() == 2 * 1'024);
  // Nor are there any: four blocks of two layers' K, on a GPU in one page of 2 MiB.
  CHECK(session->opened().regions(0).size_bytes() ==
        (TestDevice().empty() ? 4 * 2 * 1'024 : 2 << 20));
  CHECK_FALSE(session->opened().layout().layers(0).has_v());
  CHECK(Said(session->Write(0, 0, v1::SIDE_V, 0, "x")) == "INVALID_ARGUMENT");
  CHECK(Said(session->Write(0, 0, v1::SIDE_K, 0, "x")) == "OK");
  for (const v1::BlockPiece& piece : Value(session->Read(Id(0)))) CHECK(piece.side() == v1::SIDE_K);
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("K and V of different sizes are each written and read by their own") {
  // K: 16 x 2 x 32 bf16, 2,048 bytes. V: 16 x 2 x 16 bf16, 1,024 bytes.
  Node node({.pools_json = R"([{"name": "p", "num_blocks": 4, "num_layers": 2, "num_kv_heads": 2,
                              "head_dim": 32, "v_head_dim": 16, "dtype": "bf16")" +
                           DevicesJson() + "}]"});
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  REQUIRE(session->Alloc(4).ok());
  CHECK(session->opened().layout().block_bytes() == 2 * (2'048 + 1'024));
  for (uint32_t id = 0; id < 4; ++id) {
    for (uint32_t layer = 0; layer < 2; ++layer) {
      const char mark = static_cast<char>('a' + id * 4 + layer * 2);
      REQUIRE(session->Write(id, layer, v1::SIDE_K, 0, std::string(2'048, mark)).ok());
      const char next = static_cast<char>(mark + 1);
      REQUIRE(session->Write(id, layer, v1::SIDE_V, 0, std::string(1'024, next)).ok());
    }
  }
  CHECK(Said(session->Write(1, 0, v1::SIDE_V, 0, std::string(1'025, '!'))) == "OUT_OF_RANGE");
  for (uint32_t id = 0; id < 4; ++id) {
    const char mark = static_cast<char>('a' + id * 4);
    std::string expected;
    for (int layer = 0; layer < 2; ++layer) {
      expected += std::string(2'048, static_cast<char>(mark + layer * 2));
      expected += std::string(1'024, static_cast<char>(mark + layer * 2 + 1));
    }
    CHECK((Bytes(*session, Id(id)) == expected));
  }
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A copy of a block has its scales, and they are counted") {
  // nvfp4: E = 16 x 2 x 16 = 512, so 256 bytes of elements and 32 of scales a side.
  Node node({.pools_json = R"([{"name": "p", "num_blocks": 4, "num_layers": 2, "num_kv_heads": 2,
                              "head_dim": 16, "dtype": "nvfp4")" +
                           DevicesJson() + "}]"});
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  const v1::Blocks blocks = *session->Alloc(3);
  const v1::SideLayout& side = session->opened().layout().layers(0).k();
  CHECK(side.data_bytes() == 256);
  CHECK(side.scale_bytes() == 32);
  CHECK(session->opened().layout().block_bytes() == 4 * (256 + 32));

  for (uint32_t layer = 0; layer < 2; ++layer) {
    for (const v1::Side which : {v1::SIDE_K, v1::SIDE_V}) {
      const char mark = static_cast<char>('a' + layer * 4 + (which == v1::SIDE_K ? 0 : 2));
      const std::string data =
          std::string(256, mark) + std::string(32, static_cast<char>(mark + 1));
      REQUIRE(session->Write(0, layer, which, 0, data).ok());
    }
  }
  REQUIRE(session->Fill(Id(2), v1::FILL_POISON).ok());
  REQUIRE(Said(session->Copy(Id(0), Id(1))) == "OK");
  const std::string original = Bytes(*session, Id(0));
  CHECK(original.size() == 4 * (256 + 32));
  CHECK((Bytes(*session, Id(1)) == original));
  CHECK((Bytes(*session, Id(2)) == std::string(original.size(), '\xFF')));
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("Pools of one geometry but different names stay apart, each with its models' sessions") {
  Node node({.pools_json = "[" + PoolJson("p", 4) + ", " + PoolJson("q", 4) + "]"});
  CHECK(node.Pool("p").layout().fingerprint() == node.Pool("q").layout().fingerprint());
  const auto client = node.Connect();
  v1::OpenSessionRequest request;
  request.set_model_id("model a, HND");
  const auto in_p = *RawSession::Open(*client, request);
  request.set_model_id("model b, NHD");
  request.set_pool("q");
  const auto in_q = *RawSession::Open(*client, request);
  REQUIRE(in_p->Alloc(2).ok());
  CHECK(Said(in_q->DecRef(Id(0))) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(node.eyes().GetSession(in_p->id())->model_id() == "model a, HND");
  CHECK(node.eyes().GetSession(in_q->id())->model_id() == "model b, NHD");
  CHECK(node.Pool("q").free_blocks() == 4);

  // From pool to pool by a copy, and only so.
  REQUIRE(in_q->Alloc(1).ok());
  REQUIRE(in_p->Write(0, 0, v1::SIDE_K, 0, "handed over").ok());
  v1::CopyBlocksRequest copy;
  copy.set_session_id(in_p->id());
  *copy.mutable_sources() = Id(0);
  *copy.mutable_destinations() = Id(0);
  copy.set_destination_session_id(in_q->id());
  REQUIRE(Said(client->CopyBlocks(copy)) == "OK");
  CHECK(Bytes(*in_q, Id(0)).substr(0, 11) == "handed over");
  CHECK(in_p->Close().ok());
  CHECK(in_q->Close().ok());
  node.CheckAllIsBack();
}

}  // namespace
}  // namespace kvpool::test
