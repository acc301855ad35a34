// Messages and lists of exactly the announced length, and of one more.
#include <string>

#include "absl/strings/str_cat.h"
#include <grpcpp/client_context.h>

#include "kvpool/v1/block.grpc.pb.h"
#include "tests/integration/hostile/generic_call.h"
#include "tests/integration/support/node.h"
#include "tests/support/catch.h"

namespace kvpool::test {
namespace {

// A call's piece, as long as it takes to make the message `size_bytes` long.
v1::WriteBlocksRequest Message(const std::string& session_id, size_t size_bytes) {
  v1::WriteBlocksRequest request;
  request.set_session_id(session_id);
  request.mutable_piece()->set_side(v1::SIDE_K);
  // The data's length takes as many bytes for a little less.
  std::string& data = *request.mutable_piece()->mutable_data();
  data.resize(size_bytes, 'x');
  data.resize(size_bytes - (request.ByteSizeLong() - size_bytes));
  REQUIRE(request.ByteSizeLong() == size_bytes);
  return request;
}

TEST_CASE(
    "A message of the announced size is taken, one byte more is refused, and no stream ends") {
  Node node({.pools_json = R"([{"name": "p", "num_blocks": 1, "num_layers": 1, "dtype": "raw",
                               "raw_token_bytes": 1048576, "v_mode": "V_MODE_NONE"}])"});
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  REQUIRE(Said(session->Attach()) == "OK");
  REQUIRE(Said(session->Alloc(1)) == "OK");
  const size_t limit = session->opened().limits().max_message_bytes();
  CHECK(limit >= size_t{8} << 20);

  const v1::WriteBlocksRequest longest = Message(session->id(), limit);
  const auto written = client->WriteBlocks({longest});
  REQUIRE(Said(written) == "OK");
  CHECK(*written == longest.piece().data().size());
  CHECK(Said(client->WriteBlocks({Message(session->id(), limit + 1)})) == "RESOURCE_EXHAUSTED");
  // A tag and a length of four bytes lie before the text of a call of one message.
  v1::AllocRequest alloc;
  alloc.set_session_id(std::string(limit - 5, 'x'));
  REQUIRE(alloc.ByteSizeLong() == limit);
  CHECK(Said(client->Alloc(alloc)) == "INVALID_ARGUMENT");
  alloc.mutable_session_id()->push_back('x');
  CHECK(Said(client->Alloc(alloc)) == "RESOURCE_EXHAUSTED");

  // The stream is on the connection that all this was sent on.
  CHECK(Value(node.eyes().GetSession(session->id())).state() == v1::SessionStatus::STATE_ATTACHED);
  CHECK(session->Close().ok());
  CHECK(session->stream().End().ok());
  session->Detach();
  node.CheckAllIsBack();
}

TEST_CASE("A compressed message is refused before it is inflated") {
  Node node(/*num_blocks=*/1);
  {
    const auto stub =
        v1::BlockService::NewStub(node.daemon().Connect(node.daemon().worker_socket()));
    grpc::ClientContext context;
    context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    v1::OpenSessionRequest request;
    request.set_pool("p");
    // Inflated it is 64 MiB, compressed 64 KiB: the daemon's memory is looked at below.
    request.set_client_name(std::string(size_t{64} << 20, 'x'));
    v1::OpenSessionResponse response;
    const grpc::Status status = stub->OpenSession(&context, request, &response);
    CHECK(status.error_code() == grpc::StatusCode::UNIMPLEMENTED);
  }
  node.CheckAllIsBack();
}

v1::Blocks Run(uint32_t first, uint32_t count) {
  v1::Blocks blocks;
  for (uint32_t i = 0; i < count; ++i) blocks.add_block_ids(first + i);
  return blocks;
}

// How both kinds of checksum of those blocks end, whatever number of messages the answer has.
void CheckChecksums(Node& node, const v1::Blocks& list, const std::string& said) {
  GenericCaller caller(node.daemon().operator_socket());
  const auto call = [&caller](const std::string& method, auto request, const auto& block_ids) {
    request.set_pool("p");
    *request.mutable_block_ids() = block_ids;
    return Said(caller.Call(absl::StrCat("/kvpool.v1.InspectService/", method),
                            {request.SerializeAsString()}, RawClient::kPatience));
  };
  CHECK(call("ChecksumLayers", v1::ChecksumLayersRequest(), list.block_ids()) == said);
  CHECK(call("ChecksumBlocks", v1::ChecksumBlocksRequest(), list.block_ids()) == said);
}

// All that is wrong with the lists of one more is their length.
TEST_CASE("Blocks to release, to copy and to checksum are as many as announced, and no more") {
  Node node({.pools_json = R"([{"name": "p", "num_blocks": 132000, "num_layers": 1, "dtype": "raw",
                               "raw_token_bytes": 1, "v_mode": "V_MODE_NONE"}])"});
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  const uint32_t limit = session->opened().limits().max_blocks_per_call();
  REQUIRE(limit == 65'536);
  REQUIRE(Said(session->Alloc(limit)) == "OK");
  REQUIRE(Said(session->Alloc(limit)) == "OK");
  REQUIRE(Said(session->Alloc(2)) == "OK");
  const v1::Blocks all = Run(0, limit);
  const v1::Blocks one_more = Run(0, limit + 1);
  REQUIRE(node.Pool().held_blocks() == 2 * limit + 2);

  CHECK(Said(session->Copy(one_more, Run(limit + 1, limit + 1))) == "INVALID_ARGUMENT");
  CHECK(Said(session->Copy(all, Run(limit, limit))) == "OK");

  CheckChecksums(node, all, "OK");
  CheckChecksums(node, one_more, "INVALID_ARGUMENT");

  v1::AllocRequest alloc;
  alloc.set_count(1);
  *alloc.mutable_release() = one_more;
  CHECK(Said(session->Alloc(alloc)) == "INVALID_ARGUMENT");
  CHECK(node.Pool().held_blocks() == 2 * limit + 2);
  *alloc.mutable_release() = all;
  CHECK(Said(session->Alloc(alloc)) == "OK");
  CHECK(node.Pool().held_blocks() == limit + 3);
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

}  // namespace
}  // namespace kvpool::test
