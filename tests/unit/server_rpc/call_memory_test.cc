#include "server/rpc/call_memory.h"

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/eventually.h"
#include "tests/unit/server_rpc/test_server.h"

namespace kvpool::server {
namespace {

using test::Connection;
using test::Eventually;
using test::TestServer;

constexpr size_t kLongBytes = 3 << 20;

// What no schema says, and parsing keeps.
void AddUnknownField(google::protobuf::Message& message, size_t size_bytes) {
  message.GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(
      2'000, std::string(size_bytes, 'x'));
}

// Calls that the server has not answered yet, cancelled when it is destroyed.
class WaitingAllocs {
 public:
  explicit WaitingAllocs(Connection& connection) : connection_(connection) {}
  ~WaitingAllocs() {
    for (Call& call : calls_) call.context.TryCancel();
    CHECK(Eventually([&] { return ended_ == calls_.size(); }));
  }

  void Start(const v1::AllocRequest& request) {
    Call& call = calls_.emplace_back();
    connection_.blocks->async()->Alloc(&call.context, &request, &call.response,
                                       [&](const grpc::Status& status) {
                                         const auto code = status.error_code();
                                         if (code == grpc::StatusCode::RESOURCE_EXHAUSTED) {
                                           ++refused_;
                                         }
                                         ++ended_;
                                       });
  }
  size_t refused() const { return refused_; }

 private:
  struct Call {
    grpc::ClientContext context;
    v1::AllocResponse response;
  };

  Connection& connection_;
  std::deque<Call> calls_;
  std::atomic<size_t> refused_ = 0;
  std::atomic<size_t> ended_ = 0;
};

TEST_CASE("A request counts as what it becomes, not as its bytes on the wire") {
  v1::AllocRequest request;
  request.set_count(1);
  CHECK(RequestBytes(request) == 0);
  AddUnknownField(request, kLongBytes);
  CHECK(RequestBytes(request) >= kLongBytes);

  v1::LookupRequest lookup;
  for (int i = 0; i < 1'000; ++i) lookup.mutable_prefix()->add_block_hashes();
  CHECK(lookup.ByteSizeLong() < 3'000);
  CHECK(RequestBytes(lookup) >= 1'000 * sizeof(std::string));
}

TEST_CASE("A request that is dropped holds nothing any more") {
  v1::AllocRequest request;
  request.mutable_release()->mutable_block_ids()->Resize(100'000, 1);
  AddUnknownField(request, kLongBytes);
  DropRequest(request);
  CHECK(request.SpaceUsedLong() == v1::AllocRequest().SpaceUsedLong());
}

TEST_CASE("Waiting calls of a process hold so much, and no other process's") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = test::OpenSession(worker);
  test::Alloc(worker, session, 64);
  v1::AllocRequest request;
  request.set_session_id(session);
  request.set_count(1);
  request.mutable_wait()->set_seconds(30);
  AddUnknownField(request, kLongBytes);
  constexpr size_t kCalls = 60;
  {
    WaitingAllocs allocs(worker);
    for (size_t i = 0; i < kCalls; ++i) allocs.Start(request);
    REQUIRE(Eventually(
        [&] { return allocs.refused() + server.pool().counts().waiting_calls == kCalls; }));
    CHECK(allocs.refused() > 0);
    CHECK(server.pool().counts().waiting_calls > kMaxProcessCallBytes / (4 * kLongBytes));
    CHECK(server.call_memory().taken_bytes() <= kMaxProcessCallBytes);
    CHECK(server.call_memory().taken_bytes() > kMaxProcessCallBytes - 4 * kLongBytes);

    // Short calls of the process go on, and long ones of another.
    request.DiscardUnknownFields();
    request.clear_wait();
    v1::AllocResponse response;
    CHECK(test::CodeOf(test::Call(*worker.blocks, &v1::BlockService::Stub::Alloc, request,
                                  response)) == "RESOURCE_EXHAUSTED POOL_FULL");
    Connection other = server.Connect(v1::ROLE_WORKER);
    request.set_session_id(test::OpenSession(other));
    request.set_count(0);
    AddUnknownField(request, kLongBytes);
    CHECK(test::CodeOf(test::Call(*other.blocks, &v1::BlockService::Stub::Alloc, request,
                                  response)) == "OK");
  }
  CHECK(Eventually([&] { return server.call_memory().taken_bytes() == 0; }));
}

TEST_CASE("Streams that are not read hold so much, and give it back when they end") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  v1::ReadBlocksRequest request;
  request.set_session_id(test::OpenSession(worker));
  const v1::Blocks blocks = test::Alloc(worker, request.session_id(), 64);
  // More than gRPC takes on its way to a reader that does not read.
  for (int i = 0; i < 16; ++i) request.mutable_blocks()->MergeFrom(blocks);
  {
    std::deque<grpc::ClientContext> contexts;
    std::vector<std::unique_ptr<grpc::ClientReader<v1::ReadBlocksResponse>>> readers;
    v1::ReadBlocksResponse response;
    size_t open = 0;
    while (open <= kMaxProcessCallBytes / kStreamBytes) {
      readers.push_back(worker.blocks->ReadBlocks(&contexts.emplace_back(), request));
      if (!readers.back()->Read(&response)) break;
      ++open;
    }
    CHECK(test::CodeOf(readers.back()->Finish()) == "RESOURCE_EXHAUSTED LIMIT");
    readers.pop_back();
    // A request of a thousand blocks counts, too.
    CHECK(open >= kMaxProcessCallBytes / (kStreamBytes + (256U << 10)));
    for (grpc::ClientContext& context : contexts) context.TryCancel();
    for (const auto& reader : readers) reader->Finish();
  }
  CHECK(Eventually([&] { return server.call_memory().taken_bytes() == 0; }));
}

TEST_CASE("Operators' calls go on where others hold all that calls may") {
  TestServer server;
  std::deque<grpc::ClientContext> contexts;
  std::deque<Connection> workers;
  std::vector<std::unique_ptr<grpc::ClientReaderWriter<v1::PipelineRequest, v1::PipelineResponse>>>
      streams;
  while (workers.size() < kMaxCallBytes / kMaxProcessCallBytes) {
    Connection& worker = workers.emplace_back(server.Connect(v1::ROLE_WORKER));
    // Each holds two streams' worth.
    for (size_t i = 0; i < kMaxProcessCallBytes / kStreamBytes / 2; ++i) {
      streams.push_back(worker.blocks->Pipeline(&contexts.emplace_back()));
    }
  }
  REQUIRE(Eventually([&] { return server.call_memory().taken_bytes() == kMaxCallBytes; }));
  v1::GetPoolRequest request;
  request.set_name("main");
  Connection worker = server.Connect(v1::ROLE_WORKER);
  CHECK(test::CodeOf(test::Call(*worker.inspect, &v1::InspectService::Stub::GetPool, request)) ==
        "RESOURCE_EXHAUSTED LIMIT");
  Connection operators = server.Connect(v1::ROLE_OPERATOR);
  CHECK(test::CodeOf(test::Call(*operators.inspect, &v1::InspectService::Stub::GetPool, request)) ==
        "OK");
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (const auto& stream : streams) stream->Finish();
  CHECK(Eventually([&] { return server.call_memory().taken_bytes() == 0; }));
}

TEST_CASE("A WriteBlocks stream holds its message until it is written, and nothing at rest") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  v1::WriteBlocksRequest message;
  message.set_session_id(test::OpenSession(worker));
  AddUnknownField(message, kLongBytes);
  grpc::ClientContext context;
  v1::WriteBlocksResponse response;
  const auto writer = worker.blocks->WriteBlocks(&context, &response);
  // More than all of them may hold together.
  for (size_t i = 0; i < 60; ++i) {
    if (i == 1) {
      const v1::Blocks blocks = test::Alloc(worker, message.session_id(), 1);
      v1::BlockPiece& piece = *message.mutable_piece();
      piece.set_block_id(blocks.block_ids(0));
      piece.set_side(v1::SIDE_K);
      piece.set_data(std::string(8, 'x'));
    }
    REQUIRE(writer->Write(message));
  }
  CHECK(Eventually([&] { return server.call_memory().taken_bytes() == 0; }));
  writer->WritesDone();
  CHECK(test::CodeOf(writer->Finish()) == "OK");
  CHECK(response.bytes() == 59 * 8);
}

TEST_CASE("A long answer counts until it is sent") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_OPERATOR);
  v1::GetPoolRequest request;
  request.set_name("main");
  CHECK(test::CodeOf(test::Call(*worker.inspect, &v1::InspectService::Stub::GetPool, request)) ==
        "OK");
  CHECK(Eventually([&] { return server.call_memory().taken_bytes() == 0; }));
}

}  // namespace
}  // namespace kvpool::server
