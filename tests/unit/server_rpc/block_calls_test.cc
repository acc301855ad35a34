#include <future>
#include <memory>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/eventually.h"
#include "tests/unit/server_rpc/test_server.h"

namespace kvpool::test {
namespace {

using Stub = v1::BlockService::Stub;

v1::AllocRequest AllocOf(const std::string& session, uint32_t count) {
  v1::AllocRequest request;
  request.set_session_id(session);
  request.set_count(count);
  return request;
}

grpc::Status TryAlloc(Connection& connection, const v1::AllocRequest& request) {
  return Call(*connection.blocks, &Stub::Alloc, request);
}

grpc::Status IncRef(Connection& connection, const std::string& session, const v1::Blocks& blocks) {
  v1::IncRefRequest request;
  request.set_session_id(session);
  *request.mutable_blocks() = blocks;
  return Call(*connection.blocks, &Stub::IncRef, request);
}

grpc::Status DecRef(Connection& connection, const std::string& session, const v1::Blocks& blocks) {
  v1::DecRefRequest request;
  request.set_session_id(session);
  *request.mutable_blocks() = blocks;
  return Call(*connection.blocks, &Stub::DecRef, request);
}

v1::Blocks ById(const std::vector<uint32_t>& ids) {
  v1::Blocks blocks;
  blocks.mutable_block_ids()->Assign(ids.begin(), ids.end());
  return blocks;
}

// An Alloc in progress, which waits for room if need be.
struct PendingAlloc {
  explicit PendingAlloc(Connection& connection, v1::AllocRequest wanted)
      : request(std::move(wanted)) {
    connection.blocks->async()->Alloc(&context, &request, &response,
                                      [this](grpc::Status status) { done.set_value(status); });
  }
  ~PendingAlloc() {
    context.TryCancel();
    if (result.valid()) result.wait();
  }

  grpc::ClientContext context;
  v1::AllocRequest request;
  v1::AllocResponse response;
  std::promise<grpc::Status> done;
  std::future<grpc::Status> result = done.get_future();
};

v1::AllocRequest WaitingAllocOf(const std::string& session, uint32_t count) {
  v1::AllocRequest request = AllocOf(session, count);
  request.mutable_wait()->set_seconds(30);
  return request;
}

TEST_CASE("Alloc gives blocks with their generations, and what more could be had") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  v1::AllocResponse response;
  REQUIRE(Call(*worker.blocks, &Stub::Alloc, AllocOf(OpenSession(worker), 3), response).ok());
  REQUIRE(response.blocks().block_ids_size() == 3);
  REQUIRE(response.blocks().generations_size() == 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(response.blocks().block_ids(i) == static_cast<uint32_t>(i));
    CHECK(response.blocks().generations(i) != 0);
  }
  CHECK(response.available() == 61);
}

TEST_CASE("Alloc of more than there is says what could be had") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  Alloc(worker, session, 60);
  const grpc::Status status = TryAlloc(worker, AllocOf(session, 5));
  CHECK(CodeOf(status) == "RESOURCE_EXHAUSTED POOL_FULL");
  CHECK(DetailOf(status).available() == 4);
  CHECK(CodeOf(TryAlloc(worker, AllocOf(session, 65))) == "INVALID_ARGUMENT");
}

TEST_CASE("Lists hold as many blocks as a call takes, and not one more") {
  TestServer server({.limits = {.max_blocks_per_call = 8}, .pool_tenant = ""});
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  const v1::Blocks eight = Alloc(worker, session, 8);
  const grpc::Status status = TryAlloc(worker, AllocOf(session, 9));
  CHECK(CodeOf(status) == "INVALID_ARGUMENT");
  CHECK(status.error_message() == "count is 9; one call takes at most 8 blocks");

  v1::Blocks nine = eight;
  nine.add_block_ids(0);
  nine.add_generations(eight.generations(0));
  CHECK(CodeOf(IncRef(worker, session, eight)) == "OK");
  CHECK(CodeOf(IncRef(worker, session, nine)) == "INVALID_ARGUMENT");
  CHECK(CodeOf(DecRef(worker, session, nine)) == "INVALID_ARGUMENT");
  v1::AllocRequest release = AllocOf(session, 1);
  *release.mutable_release() = nine;
  CHECK(TryAlloc(worker, release).error_message() ==
        "release names 9 blocks; one call takes at most 8");
  CHECK(CodeOf(DecRef(worker, session, eight)) == "OK");
  *release.mutable_release() = eight;
  CHECK(CodeOf(TryAlloc(worker, release)) == "OK");
}

TEST_CASE("A block is handed over by its generation") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string first = OpenSession(worker);
  const std::string second = OpenSession(worker);
  v1::Blocks blocks = Alloc(worker, first, 2);
  CHECK(CodeOf(IncRef(worker, second, ById({0}))) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(CodeOf(IncRef(worker, second, blocks)) == "OK");

  blocks.set_generations(1, blocks.generations(1) + 1);
  const grpc::Status status = IncRef(worker, second, blocks);
  CHECK(CodeOf(status) == "FAILED_PRECONDITION STALE_BLOCK");
  CHECK(DetailOf(status).index() == 1);
  CHECK(DetailOf(status).block_id() == 1);
}

TEST_CASE("DecRef tells what became free, and refuses what is not held") {
  TestServer server({.limits = {}, .trace = true, .pool_tenant = ""});
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  const v1::Blocks blocks = Alloc(worker, session, 2);
  v1::DecRefRequest request;
  request.set_session_id(session);
  *request.mutable_blocks() = blocks;
  v1::DecRefResponse response;
  REQUIRE(Call(*worker.blocks, &Stub::DecRef, request, response).ok());
  CHECK(response.freed() == 2);
  CHECK(response.cached() == 0);
  CHECK(response.available() == 64);

  const uint32_t held = Alloc(worker, session, 1).block_ids(0);
  const grpc::Status status = DecRef(worker, session, ById({held, held, 7}));
  CHECK(CodeOf(status) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(DetailOf(status).index() == 1);
  CHECK(DetailOf(status).block_id() == held);
  CHECK(server.pool().counts().held_blocks == 1);
}

TEST_CASE("Generations that are neither none nor as many as the ids are refused") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  v1::Blocks blocks = Alloc(worker, session, 2);
  blocks.mutable_generations()->RemoveLast();
  CHECK(CodeOf(IncRef(worker, session, blocks)) == "INVALID_ARGUMENT");
  CHECK(CodeOf(DecRef(worker, session, blocks)) == "INVALID_ARGUMENT");
  CHECK(CodeOf(DecRef(worker, session, ById({64}))) == "INVALID_ARGUMENT");
}

TEST_CASE("The same key again is answered by the first answer") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  v1::AllocRequest request = AllocOf(OpenSession(worker), 2);
  request.set_idempotency_key(77);
  v1::AllocResponse first;
  v1::AllocResponse second;
  REQUIRE(Call(*worker.blocks, &Stub::Alloc, request, first).ok());
  REQUIRE(Call(*worker.blocks, &Stub::Alloc, request, second).ok());
  CHECK(first.SerializeAsString() == second.SerializeAsString());
  CHECK(server.pool().counts().held_blocks == 2);
  request.set_count(3);
  CHECK(CodeOf(TryAlloc(worker, request)) == "INVALID_ARGUMENT");
}

TEST_CASE("Calls on many blocks are answered as those on few") {
  TestServer server;
  Connection operating = server.Connect(v1::ROLE_OPERATOR);
  v1::CreatePoolRequest create;
  *create.mutable_spec() = MainPoolSpec();
  create.mutable_spec()->set_name("large");
  create.mutable_spec()->set_num_blocks(4000);
  REQUIRE(Call(*operating.admin, &v1::AdminService::Stub::CreatePool, create).ok());
  v1::OpenSessionRequest open;
  open.set_pool("large");
  v1::OpenSessionResponse session;
  REQUIRE(Call(*operating.blocks, &Stub::OpenSession, open, session).ok());

  const v1::Blocks blocks = Alloc(operating, session.session_id(), 3000);
  CHECK(blocks.block_ids_size() == 3000);
  CHECK(CodeOf(IncRef(operating, session.session_id(), blocks)) == "OK");
  CHECK(CodeOf(DecRef(operating, session.session_id(), blocks)) == "OK");
  CHECK(CodeOf(DecRef(operating, session.session_id(), blocks)) == "OK");
  CHECK(CodeOf(DecRef(operating, session.session_id(), blocks)) == "FAILED_PRECONDITION NOT_HELD");
  CHECK(server.pool("large").counts().free_blocks == 4000);
}

TEST_CASE("A waiting Alloc is served when there is room") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  const v1::Blocks all = Alloc(worker, session, 64);
  PendingAlloc pending(worker, WaitingAllocOf(session, 2));
  REQUIRE(Eventually([&] { return server.pool().counts().waiting_calls == 1; }));
  CHECK(CodeOf(DecRef(worker, session, all)) == "OK");
  CHECK(CodeOf(pending.result.get()) == "OK");
  CHECK(pending.response.blocks().block_ids_size() == 2);
}

TEST_CASE("A waiting Alloc that is cancelled got nothing") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  const v1::Blocks all = Alloc(worker, session, 64);
  PendingAlloc pending(worker, WaitingAllocOf(session, 2));
  REQUIRE(Eventually([&] { return server.pool().counts().waiting_calls == 1; }));
  pending.context.TryCancel();
  CHECK(pending.result.get().error_code() == grpc::StatusCode::CANCELLED);
  REQUIRE(Eventually([&] { return server.pool().counts().waiting_calls == 0; }));
  CHECK(CodeOf(DecRef(worker, session, all)) == "OK");
  CHECK(server.pool().counts().free_blocks == 64);
}

TEST_CASE("A waiting Alloc whose deadline passes got nothing") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  const v1::Blocks all = Alloc(worker, session, 64);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  v1::AllocResponse response;
  const grpc::Status status = worker.blocks->Alloc(&context, WaitingAllocOf(session, 2), &response);
  CHECK(status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
  REQUIRE(Eventually([&] { return server.pool().counts().waiting_calls == 0; }));
  CHECK(CodeOf(DecRef(worker, session, all)) == "OK");
  CHECK(server.pool().counts().free_blocks == 64);
}

TEST_CASE("A wait that ends without room is POOL_FULL") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  Alloc(worker, session, 64);
  PendingAlloc pending(worker, WaitingAllocOf(session, 2));
  REQUIRE(Eventually([&] { return server.pool().counts().waiting_calls == 1; }));
  server.Pass(std::chrono::seconds(31));
  CHECK(CodeOf(pending.result.get()) == "RESOURCE_EXHAUSTED POOL_FULL");
}

TEST_CASE("A wait is not negative, and not with allow_partial") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  v1::AllocRequest request = AllocOf(OpenSession(worker), 1);
  request.mutable_wait()->set_seconds(-1);
  CHECK(CodeOf(TryAlloc(worker, request)) == "INVALID_ARGUMENT");
  request.mutable_wait()->set_seconds(1);
  request.set_allow_partial(true);
  CHECK(CodeOf(TryAlloc(worker, request)) == "INVALID_ARGUMENT");
}

TEST_CASE("A wait of 0 is as if absent, with allow_partial and while the daemon drains too") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  v1::AllocRequest request = AllocOf(OpenSession(worker), 63);
  request.mutable_wait();
  CHECK(CodeOf(TryAlloc(worker, request)) == "OK");
  CHECK(CodeOf(TryAlloc(worker, request)) == "RESOURCE_EXHAUSTED POOL_FULL");
  request.set_allow_partial(true);
  CHECK(CodeOf(TryAlloc(worker, request)) == "OK");
  CHECK(server.pool().counts().free_blocks == 0);
  server.draining() = true;
  CHECK(CodeOf(TryAlloc(worker, request)) == "OK");
}

TEST_CASE("A daemon that drains lets no call wait") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  server.draining() = true;
  CHECK(CodeOf(TryAlloc(worker, WaitingAllocOf(session, 1))) == "UNAVAILABLE DRAINING");
  CHECK(CodeOf(TryAlloc(worker, AllocOf(session, 1))) == "OK");
}

TEST_CASE("A fill that there is not is refused") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  v1::AllocRequest request = AllocOf(OpenSession(worker), 1);
  request.set_fill(static_cast<v1::Fill>(9));
  CHECK(CodeOf(TryAlloc(worker, request)) == "INVALID_ARGUMENT");
}

TEST_CASE("Alloc answers when its blocks are filled") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  v1::AllocRequest request = AllocOf(OpenSession(worker), 4);
  request.set_fill(v1::FILL_POISON);
  v1::AllocResponse response;
  REQUIRE(Call(*worker.blocks, &Stub::Alloc, request, response).ok());
  CHECK(response.blocks().block_ids_size() == 4);
  CHECK(server.pool().counts().held_blocks == 4);
}

}  // namespace
}  // namespace kvpool::test
