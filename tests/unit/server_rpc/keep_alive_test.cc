#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"
#include "tests/support/random.h"
#include "tests/unit/server_rpc/test_server.h"

namespace kvpool::test {
namespace {

using Stub = v1::BlockService::Stub;

// A KeepAlive stream, as a client has it.
class Stream {
 public:
  Stream(Connection& connection, const std::string& session) {
    v1::KeepAliveRequest request;
    request.set_session_id(session);
    reader_ = connection.blocks->KeepAlive(&context_, request);
  }
  ~Stream() {
    context_.TryCancel();
    if (reader_ != nullptr) Finish();
  }

  // The next notice's kind; UNSPECIFIED where the stream has ended.
  v1::Notice::Kind Next() {
    v1::KeepAliveResponse response;
    return reader_->Read(&response) ? response.notice().kind() : v1::Notice::KIND_UNSPECIFIED;
  }
  grpc::Status Finish() {
    v1::KeepAliveResponse rest;
    while (reader_->Read(&rest)) continue;
    const grpc::Status status = reader_->Finish();
    reader_ = nullptr;
    return status;
  }
  void Cancel() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::KeepAliveResponse>> reader_;
};

grpc::Status Close(Connection& connection, const std::string& session) {
  v1::CloseSessionRequest request;
  request.set_session_id(session);
  return Call(*connection.blocks, &Stub::CloseSession, request);
}

grpc::Status Terminate(Connection& connection, const std::string& session) {
  v1::TerminateSessionRequest request;
  request.set_session_id(session);
  return Call(*connection.admin, &v1::AdminService::Stub::TerminateSession, request);
}

TEST_CASE("KeepAlive says first that the session is attached, and keeps it from expiring") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  Stream stream(worker, session);
  CHECK(stream.Next() == v1::Notice::KIND_ATTACHED);
  server.Pass(std::chrono::hours(2));
  Alloc(worker, session, 1);
}

TEST_CASE("A session has one stream at a time") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  Stream first(worker, session);
  CHECK(first.Next() == v1::Notice::KIND_ATTACHED);
  CHECK(CodeOf(Stream(worker, session).Finish()) == "FAILED_PRECONDITION ATTACHED");
  Alloc(worker, session, 1);
}

TEST_CASE("KeepAlive of no session, or another tenant's, is refused") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  Connection other = server.Connect(v1::ROLE_WORKER, "tenant-b");
  CHECK(CodeOf(Stream(worker, std::string(32, '0')).Finish()) == "NOT_FOUND SESSION_UNKNOWN");
  CHECK(CodeOf(Stream(worker, "nonsense").Finish()) == "INVALID_ARGUMENT");
  const std::string session = OpenSession(worker);
  CHECK(CodeOf(Stream(other, session).Finish()) == "PERMISSION_DENIED");
  Stream stream(worker, session);
  CHECK(stream.Next() == v1::Notice::KIND_ATTACHED);
}

TEST_CASE("Cancelling the stream ends the session") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  Alloc(worker, session, 5);
  Stream stream(worker, session);
  CHECK(stream.Next() == v1::Notice::KIND_ATTACHED);
  stream.Cancel();
  REQUIRE(Eventually([&] { return server.pool().counts().sessions == 0; }));
  // The process lives, and may write to them yet.
  CHECK(server.pool().counts().quarantined_blocks == 5);
  CHECK(CodeOf(Close(worker, session)) == "OK");
  CHECK(server.pool().counts().free_blocks == 64);
}

TEST_CASE("A connection that closes takes its attached session along") {
  TestServer server;
  Connection watcher = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(watcher);
  {
    Connection worker = server.Connect(v1::ROLE_WORKER);
    Stream stream(worker, session);
    CHECK(stream.Next() == v1::Notice::KIND_ATTACHED);
  }
  REQUIRE(Eventually([&] { return server.pool().counts().sessions == 0; }));
}

TEST_CASE("The stream ends well after CloseSession") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  const std::string session = OpenSession(worker);
  Stream stream(worker, session);
  CHECK(stream.Next() == v1::Notice::KIND_ATTACHED);
  CHECK(CodeOf(Close(worker, session)) == "OK");
  CHECK(stream.Next() == v1::Notice::KIND_UNSPECIFIED);
  CHECK(CodeOf(stream.Finish()) == "OK");
}

TEST_CASE("A stream whose session an operator ends says so, then ends") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  Connection operating = server.Connect(v1::ROLE_OPERATOR);
  const std::string session = OpenSession(worker);
  Stream stream(worker, session);
  CHECK(stream.Next() == v1::Notice::KIND_ATTACHED);
  CHECK(CodeOf(Terminate(operating, session.substr(0, 8))) == "OK");
  CHECK(stream.Next() == v1::Notice::KIND_TERMINATED);
  CHECK(stream.Next() == v1::Notice::KIND_UNSPECIFIED);
  CHECK(CodeOf(stream.Finish()) == "NOT_FOUND SESSION_UNKNOWN");
}

TEST_CASE("Notices to all reach each stream, and the daemon's end ends it") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  Stream first(worker, OpenSession(worker));
  Stream second(worker, OpenSession(worker));
  CHECK(first.Next() == v1::Notice::KIND_ATTACHED);
  CHECK(second.Next() == v1::Notice::KIND_ATTACHED);
  v1::Notice notice;
  notice.set_kind(v1::Notice::KIND_DRAINING);
  server.sessions().SendAll(notice);
  server.sessions().EndAll(
      MakeError(absl::StatusCode::kUnavailable, {.reason = Reason::kDraining}, "the end"));
  for (Stream* stream : {&first, &second}) {
    CHECK(stream->Next() == v1::Notice::KIND_DRAINING);
    CHECK(CodeOf(stream->Finish()) == "UNAVAILABLE DRAINING");
  }
}

TEST_CASE("A client that reads nothing makes no notices pile up") {
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  Stream stream(worker, OpenSession(worker));
  CHECK(stream.Next() == v1::Notice::KIND_ATTACHED);
  v1::Notice notice;
  notice.set_kind(v1::Notice::KIND_RECALL);
  // Each is 64 KiB: many more than the stream's window of flow control holds.
  notice.set_message(std::string(64 << 10, 'x'));
  for (uint32_t i = 1; i <= 1'000; ++i) {
    notice.set_blocks(i);
    server.sessions().SendAll(notice);
  }
  server.sessions().EndAll(absl::OkStatus());
  int received = 0;
  while (stream.Next() == v1::Notice::KIND_RECALL) ++received;
  CHECK(received > 0);
  CHECK(received < 1'000);
  CHECK(CodeOf(stream.Finish()) == "OK");
}

TEST_CASE("A stream ends once, whatever ends it first") {
  const uint64_t seed = Seed();
  CAPTURE(seed);
  Random random(seed);
  TestServer server;
  Connection worker = server.Connect(v1::ROLE_WORKER);
  Connection operating = server.Connect(v1::ROLE_OPERATOR);
  v1::Notice notice;
  notice.set_kind(v1::Notice::KIND_PREFIXES_RESET);
  for (int round = 0; round < 100; ++round) {
    const std::string session = OpenSession(worker);
    Stream stream(worker, session);
    if (random.OneIn(2)) CHECK(stream.Next() == v1::Notice::KIND_ATTACHED);
    std::vector<std::jthread> enders;
    const uint32_t which = 1 + random.Below(15);
    if ((which & 1) != 0) enders.emplace_back([&] { stream.Cancel(); });
    if ((which & 2) != 0) enders.emplace_back([&] { Close(worker, session); });
    if ((which & 4) != 0) enders.emplace_back([&] { Terminate(operating, session); });
    if ((which & 8) != 0) enders.emplace_back([&] { server.sessions().SendAll(notice); });
    enders.clear();
    stream.Cancel();
    stream.Finish();
    Close(worker, session);
  }
  REQUIRE(Eventually([&] { return server.sessions().size() == 0; }));
  CHECK(server.pool().counts().sessions == 0);
  CHECK(server.pool().CheckInvariants().ok());
}

}  // namespace
}  // namespace kvpool::test
