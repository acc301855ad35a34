#include <future>
#include <string>

#include "tests/support/catch.h"
#include "tests/unit/server_rpc/test_server.h"

namespace kvpool::test {
namespace {

using Stub = v1::BlockService::Stub;

v1::OpenSessionRequest OpenRequest() {
  v1::OpenSessionRequest request;
  request.set_pool("main");
  return request;
}

grpc::Status Open(Connection& connection, const v1::OpenSessionRequest& request) {
  return Call(*connection.blocks, &Stub::OpenSession, request);
}

grpc::Status Close(Connection& connection, const std::string& session) {
  v1::CloseSessionRequest request;
  request.set_session_id(session);
  return Call(*connection.blocks, &Stub::CloseSession, request);
}

grpc::Status OpenWithTtl(Connection& connection, int64_t seconds, int32_t nanos) {
  v1::OpenSessionRequest request = OpenRequest();
  request.mutable_ttl()->set_seconds(seconds);
  request.mutable_ttl()->set_nanos(nanos);
  return Open(connection, request);
}

TEST_CASE("OpenSession tells how to map the pool and what calls may hold") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  v1::OpenSessionResponse response;
  REQUIRE(Call(*worker.blocks, &Stub::OpenSession, OpenRequest(), response).ok());

  CHECK(response.session_id().size() == 32);
  CHECK(response.session_id().find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(response.daemon_epoch() == "epoch");
  CHECK(response.ttl().seconds() == 10);
  CHECK(response.layout().num_blocks() == 64);
  CHECK(response.layout().layers_size() == 2);
  CHECK(response.layout().layers(0).k().block_bytes() == 512);
  REQUIRE(response.regions_size() == 1);
  CHECK(response.regions(0).shard() == 0);
  CHECK(response.regions(0).region_id() != 0);
  CHECK(response.regions(0).size_bytes() == server.pool().memory().regions()[0]->size_bytes());
  CHECK(response.regions(0).device().kind() == v1::DEVICE_KIND_HOST);
  CHECK(response.regions(0).exporter_pid() == getpid());
  CHECK(response.regions(0).has_shared_memory());
  CHECK(response.limits().max_blocks_per_call() == 65'536);
  CHECK(response.limits().max_tokens_per_call() == 1'048'576);
  CHECK(response.limits().max_message_bytes() == 4U << 20);
  CHECK(response.limits().max_wait().seconds() == 60);
  CHECK(response.limits().max_idempotency_keys() == 64);
}

TEST_CASE("Each session has an id of its own") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  CHECK(OpenSession(worker) != OpenSession(worker));
  CHECK(server.pool().counts().sessions == 2);
}

TEST_CASE("OpenSession in a pool that is not there names it") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  v1::OpenSessionRequest request;
  request.set_pool("elsewhere");
  const grpc::Status status = Open(worker, request);
  CHECK(CodeOf(status) == "NOT_FOUND");
  CHECK(status.error_message().find("elsewhere") != std::string::npos);
}

TEST_CASE("A pool is for the tenants that it lists, and for operators") {
  TestServer server({.limits = {}, .pool_tenant = "tenant-a"});
  Connection listed = server.Connect(v1::ROLE_WORKER, "tenant-a");
  Connection other = server.Connect(v1::ROLE_WORKER, "tenant-b");
  Connection operating = server.Connect(v1::ROLE_OPERATOR, "admin");
  CHECK(CodeOf(Open(listed, OpenRequest())) == "OK");
  CHECK(CodeOf(Open(other, OpenRequest())) == "PERMISSION_DENIED");
  CHECK(CodeOf(Open(operating, OpenRequest())) == "OK");
}

TEST_CASE("A client's name is printable and has at most 63 characters") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  v1::OpenSessionRequest request = OpenRequest();
  request.set_client_name(std::string(63, 'x'));
  CHECK(CodeOf(Open(worker, request)) == "OK");
  request.set_client_name(std::string(64, 'x'));
  CHECK(CodeOf(Open(worker, request)) == "INVALID_ARGUMENT");
  request.set_client_name("two\nlines");
  CHECK(CodeOf(Open(worker, request)) == "INVALID_ARGUMENT");
}

TEST_CASE("A model's id has at most 1024 bytes") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  v1::OpenSessionRequest request = OpenRequest();
  request.set_model_id(std::string(1024, 'm'));
  CHECK(CodeOf(Open(worker, request)) == "OK");
  request.set_model_id(std::string(1025, 'm'));
  const grpc::Status status = Open(worker, request);
  CHECK(CodeOf(status) == "INVALID_ARGUMENT");
  CHECK(status.error_message() == "model_id has 1025 bytes; it has at most 1024");
}

TEST_CASE("A ttl is 1 s to 1 h") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  CHECK(CodeOf(OpenWithTtl(worker, 1, 0)) == "OK");
  CHECK(CodeOf(OpenWithTtl(worker, 3600, 0)) == "OK");
  CHECK(CodeOf(OpenWithTtl(worker, 0, 999'999'999)) == "INVALID_ARGUMENT");
  CHECK(CodeOf(OpenWithTtl(worker, 3600, 1)) == "INVALID_ARGUMENT");
  CHECK(CodeOf(OpenWithTtl(worker, 0, 0)) == "INVALID_ARGUMENT");
  const grpc::Status status = OpenWithTtl(worker, -5, 0);
  CHECK(CodeOf(status) == "INVALID_ARGUMENT");
  CHECK(status.error_message().find("-5") != std::string::npos);
}

TEST_CASE("A negative pid is refused") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  v1::OpenSessionRequest request = OpenRequest();
  request.set_pid(-1);
  CHECK(CodeOf(Open(worker, request)) == "INVALID_ARGUMENT");
}

TEST_CASE("A session opens only at the fingerprint that is expected") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  v1::OpenSessionRequest request = OpenRequest();
  request.set_expected_fingerprint(server.pool().layout().fingerprint);
  CHECK(CodeOf(Open(worker, request)) == "OK");
  request.set_expected_fingerprint("feedbeef");
  const grpc::Status status = Open(worker, request);
  CHECK(CodeOf(status) == "FAILED_PRECONDITION LAYOUT_MISMATCH");
  CHECK(status.error_message().find("block_size 16, num_layers 2, num_kv_heads 1, head_dim 16") !=
        std::string::npos);
  CHECK(status.error_message().find("feedbeef") != std::string::npos);
  CHECK(status.error_message().find(server.pool().layout().fingerprint) != std::string::npos);
}

TEST_CASE("A daemon that starts or drains opens no session") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  server.starting() = true;
  CHECK(CodeOf(Open(worker, OpenRequest())) == "UNAVAILABLE STARTING");
  server.starting() = false;
  server.draining() = true;
  CHECK(CodeOf(Open(worker, OpenRequest())) == "UNAVAILABLE DRAINING");
}

TEST_CASE("A session that fails to open leaves nothing behind") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  v1::OpenSessionRequest request = OpenRequest();
  request.set_guaranteed_blocks(65);
  CHECK(CodeOf(Open(worker, request)) == "INVALID_ARGUMENT");
  CHECK(server.pool().counts().sessions == 0);
  CHECK(server.sessions().size() == 0);
}

TEST_CASE("A session that joins gets the regions, and holds nothing of its own") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  v1::OpenSessionRequest request = OpenRequest();
  request.set_join_session_id(OpenSession(worker));
  v1::OpenSessionResponse response;
  REQUIRE(Call(*worker.blocks, &Stub::OpenSession, request, response).ok());
  CHECK(response.regions_size() == 1);

  v1::AllocRequest alloc;
  alloc.set_session_id(response.session_id());
  alloc.set_count(1);
  CHECK(CodeOf(Call(*worker.blocks, &Stub::Alloc, alloc)) == "FAILED_PRECONDITION JOINED");
}

TEST_CASE("A session joins a live one of its tenant") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  Connection other = server.Connect(v1::ROLE_WORKER, "tenant-b");
  v1::OpenSessionRequest request = OpenRequest();
  request.set_join_session_id("nonsense");
  CHECK(CodeOf(Open(worker, request)) == "INVALID_ARGUMENT");
  request.set_join_session_id(std::string(32, '0'));
  CHECK(CodeOf(Open(worker, request)) == "NOT_FOUND SESSION_UNKNOWN");
  request.set_join_session_id(OpenSession(worker));
  CHECK(CodeOf(Open(other, request)) == "PERMISSION_DENIED");
}

TEST_CASE("CloseSession frees what the session held, once") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  Alloc(worker, session, 3);
  CHECK(server.pool().counts().free_blocks == 61);
  CHECK(CodeOf(Close(worker, session)) == "OK");
  CHECK(server.pool().counts().free_blocks == 64);
  CHECK(CodeOf(Close(worker, session)) == "NOT_FOUND SESSION_UNKNOWN");
}

TEST_CASE("A session's id is usable by its tenant, from any connection") {
  TestServer server;
  Connection first = server.Connect(v1::ROLE_WORKER);
  Connection second = server.Connect(v1::ROLE_WORKER);
  Connection other = server.Connect(v1::ROLE_WORKER, "tenant-b");
  const std::string session = OpenSession(first);
  Alloc(second, session, 1);
  CHECK(CodeOf(Close(other, session)) == "PERMISSION_DENIED");
  CHECK(CodeOf(Close(second, session)) == "OK");
}

TEST_CASE("What is no session id is an invalid argument, not an unknown session") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  for (const std::string& wrong : {std::string(), std::string("abc"), std::string(31, 'a'),
                                   std::string(33, 'a'), std::string(32, 'A')}) {
    CAPTURE(wrong);
    CHECK(CodeOf(Close(worker, wrong)) == "INVALID_ARGUMENT");
  }
  CHECK(CodeOf(Close(worker, std::string(32, 'a'))) == "NOT_FOUND SESSION_UNKNOWN");
}

TEST_CASE("An unattached session ends when no call has run for its ttl") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  server.Pass(std::chrono::seconds(9));
  Alloc(worker, session, 1);
  server.Pass(std::chrono::seconds(9));
  CHECK(server.pool().counts().sessions == 1);
  server.Pass(std::chrono::seconds(2));
  CHECK(server.pool().counts().sessions == 0);
  v1::DecRefRequest request;
  request.set_session_id(session);
  CHECK(CodeOf(Call(*worker.blocks, &Stub::DecRef, request)) == "NOT_FOUND SESSION_UNKNOWN");
}

TEST_CASE("A call whose caller is gone when its turn comes does nothing") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  std::promise<void> let_go;
  const std::shared_future<void> is_let_go = let_go.get_future().share();
  for (int i = 0; i < 2; ++i) server.workers().Post([is_let_go] { is_let_go.wait(); });
  grpc::ClientContext context;
  v1::OpenSessionRequest request;
  request.set_pool("main");
  v1::OpenSessionResponse response;
  std::promise<grpc::Status> ended;
  worker.blocks->async()->OpenSession(
      &context, &request, &response,
      [&ended](const grpc::Status& status) { ended.set_value(status); });
  // What is sent after it is behind it.
  CHECK(Call(*worker.inspect, &v1::InspectService::Stub::GetDaemon, v1::GetDaemonRequest()).ok());
  context.TryCancel();
  CHECK(ended.get_future().get().error_code() == grpc::StatusCode::CANCELLED);
  // The same, for the news of it.
  CHECK(Call(*worker.inspect, &v1::InspectService::Stub::GetDaemon, v1::GetDaemonRequest()).ok());
  let_go.set_value();
  OpenSession(worker);
  CHECK(server.pool().counts().sessions == 1);
}

}  // namespace
}  // namespace kvpool::test
