#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/eventually.h"
#include "tests/unit/server_rpc/test_server.h"

namespace kvpool::test {
namespace {

using Stub = v1::BlockService::Stub;

constexpr size_t kSideBytes = 512;  // 16 tokens of 1 head of 16 elements of bf16.

v1::Blocks ById(const std::vector<uint32_t>& ids) {
  v1::Blocks blocks;
  blocks.mutable_block_ids()->Assign(ids.begin(), ids.end());
  return blocks;
}

v1::BlockPiece PieceOf(uint32_t block, uint32_t layer, v1::Side side, std::string data) {
  v1::BlockPiece piece;
  piece.set_block_id(block);
  piece.set_layer(layer);
  piece.set_side(side);
  piece.set_data(std::move(data));
  return piece;
}

grpc::Status Fill(Connection& connection, const std::string& session, const v1::Blocks& blocks,
                  v1::Fill fill) {
  v1::FillBlocksRequest request;
  request.set_session_id(session);
  *request.mutable_blocks() = blocks;
  request.set_fill(fill);
  return Call(*connection.blocks, &Stub::FillBlocks, request);
}

grpc::Status Copy(Connection& connection, const std::string& session,
                  const std::vector<uint32_t>& sources, const std::vector<uint32_t>& destinations,
                  const std::string& destination_session = "") {
  v1::CopyBlocksRequest request;
  request.set_session_id(session);
  *request.mutable_sources() = ById(sources);
  *request.mutable_destinations() = ById(destinations);
  request.set_destination_session_id(destination_session);
  return Call(*connection.blocks, &Stub::CopyBlocks, request);
}

struct ReadResult {
  grpc::Status status;
  std::vector<v1::BlockPiece> pieces;
};

ReadResult Read(Connection& connection, const v1::ReadBlocksRequest& request) {
  grpc::ClientContext context;
  ReadResult result;
  const auto reader = connection.blocks->ReadBlocks(&context, request);
  v1::ReadBlocksResponse response;
  while (reader->Read(&response)) result.pieces.push_back(response.piece());
  result.status = reader->Finish();
  return result;
}

ReadResult Read(Connection& connection, const std::string& session, const v1::Blocks& blocks) {
  v1::ReadBlocksRequest request;
  request.set_session_id(session);
  *request.mutable_blocks() = blocks;
  return Read(connection, request);
}

struct WriteResult {
  grpc::Status status;
  uint64_t bytes = 0;
};

// Sends messages until one is not taken any more.
WriteResult Write(Connection& connection, const std::vector<v1::WriteBlocksRequest>& messages) {
  grpc::ClientContext context;
  v1::WriteBlocksResponse response;
  const auto writer = connection.blocks->WriteBlocks(&context, &response);
  for (const v1::WriteBlocksRequest& message : messages) {
    if (!writer->Write(message)) break;
  }
  writer->WritesDone();
  WriteResult result;
  result.status = writer->Finish();
  result.bytes = response.bytes();
  return result;
}

v1::WriteBlocksRequest WriteOf(const std::string& session, const v1::BlockPiece& piece) {
  v1::WriteBlocksRequest request;
  request.set_session_id(session);
  *request.mutable_piece() = piece;
  return request;
}

TEST_CASE("What is written to blocks is read from them, a side a piece") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  Alloc(worker, session, 2);
  std::vector<v1::WriteBlocksRequest> messages;
  for (uint32_t block = 0; block < 2; ++block) {
    for (uint32_t layer = 0; layer < 2; ++layer) {
      for (const v1::Side side : {v1::SIDE_K, v1::SIDE_V}) {
        const char byte = static_cast<char>('a' + messages.size());
        messages.push_back(WriteOf(messages.empty() ? session : "",
                                   PieceOf(block, layer, side, std::string(kSideBytes, byte))));
      }
    }
  }
  const WriteResult written = Write(worker, messages);
  CHECK(CodeOf(written.status) == "OK");
  CHECK(written.bytes == 8 * kSideBytes);

  const ReadResult read = Read(worker, session, ById({0, 1}));
  CHECK(CodeOf(read.status) == "OK");
  REQUIRE(read.pieces.size() == 8);
  for (size_t i = 0; i < 8; ++i) {
    CAPTURE(i);
    CHECK(read.pieces[i].SerializeAsString() == messages[i].piece().SerializeAsString());
  }
}

TEST_CASE("ReadBlocks gives the layers asked for, and checks what is asked") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  v1::ReadBlocksRequest request;
  request.set_session_id(OpenSession(worker));
  Alloc(worker, request.session_id(), 1);
  *request.mutable_blocks() = ById({0});
  request.add_layers(1);
  const ReadResult read = Read(worker, request);
  REQUIRE(read.pieces.size() == 2);
  CHECK(read.pieces[0].layer() == 1);
  CHECK(read.pieces[1].side() == v1::SIDE_V);

  request.set_shard(1);
  CHECK(CodeOf(Read(worker, request).status) == "INVALID_ARGUMENT");
  request.set_shard(0);
  request.set_layers(0, 2);
  CHECK(CodeOf(Read(worker, request).status) == "INVALID_ARGUMENT");
  request.mutable_layers()->Resize(1025, 0);
  CHECK(Read(worker, request).status.error_message() ==
        "layers names 1025 layers; one call takes at most 1024");
  request.clear_layers();
  *request.mutable_blocks() = ById({1});
  CHECK(CodeOf(Read(worker, request).status) == "FAILED_PRECONDITION NOT_HELD");
  request.clear_blocks();
  CHECK(CodeOf(Read(worker, request).status) == "OK");
}

TEST_CASE("A list to read has as many blocks as a call takes, and not one more") {
  TestServer server({.limits = {.max_blocks_per_call = 4}, .pool_tenant = ""});
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  Alloc(worker, session, 4);
  Alloc(worker, session, 1);
  CHECK(CodeOf(Read(worker, session, ById({0, 1, 2, 3})).status) == "OK");
  CHECK(CodeOf(Read(worker, session, ById({0, 1, 2, 3, 4})).status) == "INVALID_ARGUMENT");
  CHECK(CodeOf(Fill(worker, session, ById({0, 1, 2, 3}), v1::FILL_ZERO)) == "OK");
  CHECK(CodeOf(Fill(worker, session, ById({0, 1, 2, 3, 4}), v1::FILL_ZERO)) == "INVALID_ARGUMENT");
  CHECK(CodeOf(Copy(worker, session, {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4})) == "INVALID_ARGUMENT");
}

TEST_CASE("A read that is given up lets the session expire") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  Alloc(worker, session, 64);
  {
    grpc::ClientContext context;
    v1::ReadBlocksRequest request;
    request.set_session_id(session);
    // Some 130 MB in all: more than any buffer on the way holds.
    for (int i = 0; i < 65'536; ++i) request.mutable_blocks()->add_block_ids(0);
    const auto reader = worker.blocks->ReadBlocks(&context, request);
    v1::ReadBlocksResponse response;
    REQUIRE(reader->Read(&response));
    server.Pass(std::chrono::seconds(60));
    CHECK(server.pool().counts().sessions == 1);
    context.TryCancel();
    CHECK(reader->Finish().error_code() == grpc::StatusCode::CANCELLED);
  }
  REQUIRE(Eventually([&] {
    server.Pass(std::chrono::seconds(60));
    return server.pool().counts().sessions == 0;
  }));
}

TEST_CASE("WriteBlocks begins with a message that names the session") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  const std::string other = OpenSession(worker);
  Alloc(worker, session, 1);
  const v1::BlockPiece piece = PieceOf(0, 0, v1::SIDE_K, "bytes");
  v1::WriteBlocksRequest name_only;
  name_only.set_session_id(session);

  CHECK(CodeOf(Write(worker, {}).status) == "INVALID_ARGUMENT");
  CHECK(CodeOf(Write(worker, {WriteOf("", piece)}).status) == "INVALID_ARGUMENT");
  CHECK(CodeOf(Write(worker, {WriteOf(std::string(32, '0'), piece)}).status) ==
        "NOT_FOUND SESSION_UNKNOWN");
  CHECK(Write(worker, {name_only}).bytes == 0);
  CHECK(Write(worker, {name_only, WriteOf("", piece), WriteOf(session, piece)}).bytes == 10);
  CHECK(CodeOf(Write(worker, {name_only, WriteOf(other, piece)}).status) == "INVALID_ARGUMENT");
  CHECK(CodeOf(Write(worker, {name_only, name_only}).status) == "INVALID_ARGUMENT");
}

TEST_CASE("A piece that is wrong is refused before its bytes move") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  Alloc(worker, session, 1);
  CHECK(CodeOf(Fill(worker, session, ById({0}), v1::FILL_ZERO)) == "OK");
  const auto code = [&](const v1::BlockPiece& piece) {
    return CodeOf(Write(worker, {WriteOf(session, piece)}).status);
  };
  CHECK(code(PieceOf(0, 0, v1::SIDE_K, std::string(kSideBytes + 1, 'x'))) == "OUT_OF_RANGE");
  v1::BlockPiece late = PieceOf(0, 0, v1::SIDE_K, "xx");
  late.set_offset_bytes(kSideBytes - 1);
  CHECK(code(late) == "OUT_OF_RANGE");
  late.set_offset_bytes(UINT64_MAX);
  CHECK(code(late) == "OUT_OF_RANGE");
  CHECK(code(PieceOf(0, 2, v1::SIDE_K, "x")) == "INVALID_ARGUMENT");
  CHECK(code(PieceOf(0, 0, v1::SIDE_UNSPECIFIED, "x")) == "INVALID_ARGUMENT");
  CHECK(code(PieceOf(64, 0, v1::SIDE_K, "x")) == "INVALID_ARGUMENT");
  CHECK(code(PieceOf(1, 0, v1::SIDE_K, "x")) == "FAILED_PRECONDITION NOT_HELD");
  for (const v1::BlockPiece& piece : Read(worker, session, ById({0})).pieces) {
    CHECK(piece.data() == std::string(kSideBytes, '\0'));
  }
}

TEST_CASE("A stream of writes keeps its session, and cancelling it lets the session go") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  Alloc(worker, session, 1);
  {
    grpc::ClientContext context;
    v1::WriteBlocksResponse response;
    const auto writer = worker.blocks->WriteBlocks(&context, &response);
    REQUIRE(writer->Write(WriteOf(session, PieceOf(0, 0, v1::SIDE_K, "first"))));
    REQUIRE(Eventually([&] {
      const auto read = Read(worker, session, ById({0}));
      return !read.pieces.empty() && read.pieces[0].data().substr(0, 5) == "first";
    }));
    server.Pass(std::chrono::seconds(60));
    CHECK(server.pool().counts().sessions == 1);
    context.TryCancel();
    CHECK(writer->Finish().error_code() == grpc::StatusCode::CANCELLED);
  }
  REQUIRE(Eventually([&] {
    server.Pass(std::chrono::seconds(60));
    return server.pool().counts().sessions == 0;
  }));
}

TEST_CASE("FillBlocks fills with zeros or poison what the session holds") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  Alloc(worker, session, 2);
  CHECK(CodeOf(Fill(worker, session, ById({0, 1}), v1::FILL_POISON)) == "OK");
  CHECK(CodeOf(Fill(worker, session, ById({1}), v1::FILL_ZERO)) == "OK");
  const ReadResult read = Read(worker, session, ById({0, 1}));
  REQUIRE(read.pieces.size() == 8);
  for (size_t i = 0; i < 8; ++i) {
    CHECK(read.pieces[i].data() == std::string(kSideBytes, i < 4 ? '\xFF' : '\0'));
  }
  CHECK(CodeOf(Fill(worker, session, ById({2}), v1::FILL_ZERO)) == "FAILED_PRECONDITION NOT_HELD");
  for (const v1::Fill wrong :
       {v1::FILL_UNSPECIFIED, v1::FILL_ACROSS_TENANTS, static_cast<v1::Fill>(9)}) {
    CHECK(CodeOf(Fill(worker, session, ById({0}), wrong)) == "INVALID_ARGUMENT");
  }
}

TEST_CASE("CopyBlocks copies within a pool, and to a session of another") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_OPERATOR);
  const std::string session = OpenSession(worker);
  Alloc(worker, session, 2);
  CHECK(CodeOf(Fill(worker, session, ById({0}), v1::FILL_POISON)) == "OK");
  CHECK(CodeOf(Copy(worker, session, {0}, {1})) == "OK");
  CHECK(Read(worker, session, ById({1})).pieces.at(3).data() == std::string(kSideBytes, '\xFF'));

  v1::CreatePoolRequest create;
  *create.mutable_spec() = MainPoolSpec();
  create.mutable_spec()->set_name("second");
  REQUIRE(Call(*worker.admin, &v1::AdminService::Stub::CreatePool, create).ok());
  v1::OpenSessionRequest open;
  open.set_pool("second");
  v1::OpenSessionResponse second;
  REQUIRE(Call(*worker.blocks, &Stub::OpenSession, open, second).ok());
  Alloc(worker, second.session_id(), 1);
  CHECK(CodeOf(Copy(worker, session, {1}, {0}, second.session_id())) == "OK");
  CHECK(Read(worker, second.session_id(), ById({0})).pieces.at(0).data() ==
        std::string(kSideBytes, '\xFF'));
}

TEST_CASE("CopyBlocks refuses pairs that are none, and sessions that are not known") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  Alloc(worker, session, 3);
  CHECK(CodeOf(Copy(worker, session, {0, 1}, {2})) == "INVALID_ARGUMENT");
  CHECK(CodeOf(Copy(worker, session, {0}, {0})) == "INVALID_ARGUMENT");
  CHECK(CodeOf(Copy(worker, session, {0, 1}, {2, 2})) == "INVALID_ARGUMENT");
  CHECK(CodeOf(Copy(worker, session, {0}, {5})) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(CodeOf(Copy(worker, session, {0}, {1}, std::string(32, '0'))) ==
        "NOT_FOUND SESSION_UNKNOWN");
  CHECK(CodeOf(Copy(worker, session, {0}, {1}, "nonsense")) == "INVALID_ARGUMENT");
  CHECK(CodeOf(Copy(worker, session, {}, {})) == "OK");
}

}  // namespace
}  // namespace kvpool::test
