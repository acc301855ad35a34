#include <string>

#include "absl/strings/match.h"

#include "tests/support/catch.h"
#include "tests/unit/server_rpc/test_server.h"

namespace kvpool::test {
namespace {

using Stub = v1::AdminService::Stub;

grpc::Status Create(Connection& connection, const v1::PoolSpec& spec) {
  v1::CreatePoolRequest request;
  *request.mutable_spec() = spec;
  return Call(*connection.admin, &Stub::CreatePool, request);
}

grpc::Status Delete(Connection& connection, const std::string& name) {
  v1::DeletePoolRequest request;
  request.set_name(name);
  return Call(*connection.admin, &Stub::DeletePool, request);
}

grpc::Status Terminate(Connection& connection, const std::string& session, bool release_claims) {
  v1::TerminateSessionRequest request;
  request.set_session_id(session);
  request.set_release_claims(release_claims);
  return Call(*connection.admin, &Stub::TerminateSession, request);
}

TEST_CASE("A pool is created, used and deleted") {
  TestServer server;
  Connection operating = server.Connect(v1::ROLE_OPERATOR);
  v1::CreatePoolRequest request;
  *request.mutable_spec() = MainPoolSpec();
  request.mutable_spec()->set_name("second");
  v1::CreatePoolResponse response;
  REQUIRE(Call(*operating.admin, &Stub::CreatePool, request, response).ok());
  CHECK(response.pool().layout().spec().name() == "second");
  CHECK(response.pool().free_blocks() == 64);
  CHECK(CodeOf(Create(operating, request.spec())) == "ALREADY_EXISTS");
  CHECK(CodeOf(Delete(operating, "second")) == "OK");
  CHECK(CodeOf(Delete(operating, "second")) == "NOT_FOUND");
}

TEST_CASE("A wrong spec is refused, naming the field") {
  TestServer server;
  Connection operating = server.Connect(v1::ROLE_OPERATOR);
  v1::PoolSpec spec = MainPoolSpec();
  spec.set_name("Second");
  CHECK(CodeOf(Create(operating, spec)) == "INVALID_ARGUMENT");
  spec.set_name("second");
  spec.set_num_layers(0);
  const grpc::Status status = Create(operating, spec);
  CHECK(CodeOf(status) == "INVALID_ARGUMENT");
  CHECK(status.error_message().find("num_layers") != std::string::npos);
  spec = MainPoolSpec();
  spec.set_name("second");
  spec.set_v_mode(static_cast<v1::VMode>(9));
  CHECK(CodeOf(Create(operating, spec)) == "INVALID_ARGUMENT");
}

TEST_CASE("A daemon that starts or drains creates no pool, and ends and deletes what there is") {
  TestServer server;
  Connection operating = server.Connect(v1::ROLE_OPERATOR);
  const std::string session = OpenSession(operating);
  v1::PoolSpec spec = MainPoolSpec();
  spec.set_name("second");
  server.starting() = true;
  CHECK(CodeOf(Create(operating, spec)) == "UNAVAILABLE STARTING");
  server.starting() = false;
  server.draining() = true;
  CHECK(CodeOf(Create(operating, spec)) == "UNAVAILABLE DRAINING");
  CHECK(CodeOf(Terminate(operating, session, true)) == "OK");
  CHECK(CodeOf(Delete(operating, "main")) == "OK");
  server.draining() = false;
  CHECK(CodeOf(Create(operating, spec)) == "OK");
}

TEST_CASE("A pool with an open session is in use") {
  TestServer server;
  Connection operating = server.Connect(v1::ROLE_OPERATOR);
  const std::string session = OpenSession(operating);
  grpc::Status status = Delete(operating, "main");
  CHECK(CodeOf(status) == "FAILED_PRECONDITION IN_USE");
  CHECK(absl::StrContains(status.error_message(), session.substr(0, 8)));
  CHECK_FALSE(absl::StrContains(status.error_message(), "ended"));
  // Ended, it is in the way as long as its process may still write.
  Alloc(operating, session, 1);
  CHECK(CodeOf(Terminate(operating, session, false)) == "OK");
  status = Delete(operating, "main");
  CHECK(CodeOf(status) == "FAILED_PRECONDITION IN_USE");
  CHECK(absl::StrContains(status.error_message(), session.substr(0, 8)));
  CHECK(absl::StrContains(status.error_message(), "release_claims"));
  CHECK(CodeOf(Terminate(operating, session, true)) == "OK");
  CHECK(CodeOf(Delete(operating, "main")) == "OK");
}

TEST_CASE("TerminateSession ends a session, and its claims where the operator vouches") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  Connection operating = server.Connect(v1::ROLE_OPERATOR, "admin");
  const std::string session = OpenSession(worker);
  Alloc(worker, session, 4);
  CHECK(CodeOf(Terminate(operating, session.substr(0, 8), false)) == "OK");
  CHECK(server.pool().counts().sessions == 0);
  CHECK(server.pool().counts().quarantined_blocks == 4);
  CHECK(CodeOf(Terminate(operating, session.substr(0, 8), true)) == "OK");
  CHECK(server.pool().counts().free_blocks == 64);
  CHECK(CodeOf(Terminate(operating, session, true)) == "NOT_FOUND SESSION_UNKNOWN");
  CHECK(CodeOf(Terminate(operating, "XY", true)) == "INVALID_ARGUMENT");
  CHECK(CodeOf(Terminate(operating, "", true)) == "INVALID_ARGUMENT");
}

TEST_CASE("An ambiguous beginning of an id ends no session, nor does a short one") {
  TestServer server;
  Connection operating = server.Connect(v1::ROLE_OPERATOR);
  const std::string session = OpenSession(operating);
  CHECK(CodeOf(Terminate(operating, session.substr(0, 1), true)) == "INVALID_ARGUMENT");
  CHECK(CodeOf(Terminate(operating, session.substr(0, 7), true)) == "INVALID_ARGUMENT");
  server.AddSession({.bytes = {1, 2, 3, 4, 5}});
  server.AddSession({.bytes = {1, 2, 3, 4, 6}});
  CHECK(CodeOf(Terminate(operating, "01020304", true)) == "INVALID_ARGUMENT");
  CHECK(server.pool().counts().sessions == 3);
  CHECK(CodeOf(Terminate(operating, "0102030406", true)) == "OK");
  CHECK(server.pool().counts().sessions == 2);
}

TEST_CASE("Drain takes a deadline from nothing to a day, or none") {
  TestServer server;
  Connection operating = server.Connect(v1::ROLE_OPERATOR);
  const auto drain = [&](int64_t seconds) {
    v1::DrainRequest request;
    request.mutable_deadline()->set_seconds(seconds);
    return CodeOf(Call(*operating.admin, &Stub::Drain, request));
  };
  CHECK(drain(-1) == "INVALID_ARGUMENT");
  CHECK(drain(24 * 3'600 + 1) == "INVALID_ARGUMENT");
  CHECK_FALSE(server.draining());
  CHECK(drain(0) == "OK");
  CHECK(server.draining());
  CHECK(server.drain_deadline() == Duration::zero());
  CHECK(drain(24 * 3'600) == "OK");
  CHECK(server.drain_deadline() == std::chrono::hours(24));
  CHECK(CodeOf(Call(*operating.admin, &Stub::Drain, v1::DrainRequest())) == "OK");
  CHECK_FALSE(server.drain_deadline().has_value());
}

}  // namespace
}  // namespace kvpool::test
