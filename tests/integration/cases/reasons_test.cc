// Why a call failed, for programs: every reason that this daemon gives, with its index and block
// where it names one. (LAYOUT_MISMATCH, STARTING, DRAINING and IN_USE are with what they are
// about.)
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/error.h"
#include "tests/integration/support/node.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"

namespace kvpool::test {
namespace {

using std::chrono::seconds;

TEST_CASE("A tenant over its quota is told QUOTA, and does not wait") {
  Node node({.pools_json = OnePool(8, R"(, "max_blocks_per_tenant": 4)")});
  const auto client = node.Connect();
  const auto first = *RawSession::Open(*client, {});
  const auto second = *RawSession::Open(*client, {});
  REQUIRE(first->Alloc(3).ok());
  CHECK(Said(second->Alloc(2)) == "RESOURCE_EXHAUSTED QUOTA");
  CHECK(Said(second->AllocWaiting(2, seconds(60))) == "RESOURCE_EXHAUSTED QUOTA");
  CHECK(second->AllocUpTo(8)->block_ids_size() == 1);
  CHECK(first->Close().ok());
  CHECK(second->Close().ok());
}

TEST_CASE("A guarantee keeps others out of what it has not filled") {
  Node node(/*num_blocks=*/8);
  const auto client = node.Connect();
  v1::OpenSessionRequest request;
  request.set_guaranteed_blocks(5);
  const auto guaranteed = *RawSession::Open(*client, request);
  request.set_guaranteed_blocks(4);
  CHECK(Said(RawSession::Open(*client, request)) == "RESOURCE_EXHAUSTED GUARANTEE");
  const auto other = *RawSession::Open(*client, {});
  const auto refused = other->Alloc(4);
  CHECK(Said(refused) == "RESOURCE_EXHAUSTED POOL_FULL");
  CHECK(GetErrorDetail(refused.status()).available == 3);
  CHECK(other->Alloc(3).ok());
  CHECK(guaranteed->Alloc(5).ok());
  CHECK(guaranteed->Close().ok());
  CHECK(other->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A wrong entry of a list is named by its index and block") {
  Node node(/*num_blocks=*/8);
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  const auto other = *RawSession::Open(*client, {});
  const v1::Blocks held = *session->Alloc(3);
  const v1::Blocks free = *other->Alloc(2);
  REQUIRE(other->DecRef(free).ok());

  const auto check = [](const absl::Status& status, const std::string& said, uint32_t index,
                        uint32_t block_id) {
    CHECK(Said(status) == said);
    CHECK(GetErrorDetail(status).index == index);
    CHECK(GetErrorDetail(status).block_id == block_id);
  };
  v1::Blocks stale = held;
  stale.set_generations(2, held.generations(2) + 1);
  check(session->DecRef(stale).status(), "FAILED_PRECONDITION STALE_BLOCK", 2, held.block_ids(2));
  check(session->IncRef(stale), "FAILED_PRECONDITION STALE_BLOCK", 2, held.block_ids(2));
  const v1::Blocks not_live = Joined(held, First(free, 1));
  check(session->IncRef(not_live), "FAILED_PRECONDITION NOT_LIVE", 3, free.block_ids(0));
  check(session->DecRef(not_live).status(), "FAILED_PRECONDITION NOT_HELD", 3, free.block_ids(0));
  check(session->Read(not_live).status(), "FAILED_PRECONDITION NOT_HELD", 3, free.block_ids(0));
  check(session->Fill(not_live, v1::FILL_ZERO), "FAILED_PRECONDITION NOT_HELD", 3,
        free.block_ids(0));
  CHECK(session->Close().ok());
  CHECK(other->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A claimed block is read by who holds it, but not written to") {
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  const auto ended = *RawSession::Open(*client, {});
  const auto holder = *RawSession::Open(*client, {});
  const v1::Blocks block = *ended->Alloc(1);
  REQUIRE(holder->IncRef(block).ok());
  REQUIRE(node.eyes().TerminateSession(ended->id(), false).ok());

  CHECK(node.eyes().GetBlock("p", block.block_ids(0))->claimed());
  CHECK(Said(holder->Read(block)) == "OK");
  CHECK(Said(holder->Fill(block, v1::FILL_ZERO)) == "FAILED_PRECONDITION CLAIMED");
  CHECK(Said(holder->Write(block.block_ids(0), 0, v1::SIDE_K, 0, "x")) ==
        "FAILED_PRECONDITION CLAIMED");
  CHECK(Said(holder->DecRef(block)) == "OK");
  CHECK(node.Pool().quarantined_blocks() == 1);
  CHECK(Said(holder->IncRef(block)) == "FAILED_PRECONDITION NOT_LIVE");
  CHECK(ended->Close().ok());
  CHECK(node.FreeBlocks() == 4);
  CHECK(holder->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A session has one stream, and may have another when that one has ended") {
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  REQUIRE(session->Attach().ok());
  CHECK(Said(client->KeepAlive(session->id())->End()) == "FAILED_PRECONDITION ATTACHED");
  CHECK(Said(session->Alloc(1)) == "OK");
  CHECK(session->Close().ok());
  CHECK(Said(session->stream().End()) == "OK");
  session->Detach();
  node.CheckAllIsBack();
}

TEST_CASE(
    "A key answers again, until what it answered with is let go; for another call it is wrong") {
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  v1::AllocRequest request;
  request.set_count(2);
  request.set_idempotency_key(7);
  const auto first = session->Alloc(request);
  const auto again = session->Alloc(request);
  REQUIRE(Said(first) == "OK");
  REQUIRE(Said(again) == "OK");
  CHECK(first->SerializeAsString() == again->SerializeAsString());
  CHECK(node.Pool().held_blocks() == 2);
  CHECK(Said(session->IncRef(First(first->blocks(), 1), 8)) == "OK");
  CHECK(Said(session->IncRef(First(first->blocks(), 1), 8)) == "OK");
  CHECK(node.eyes().GetSession(session->id())->references() == 3);

  v1::AllocRequest other = request;
  other.set_count(1);
  CHECK(Said(session->Alloc(other)) == "INVALID_ARGUMENT");
  CHECK(Said(session->IncRef(first->blocks(), 7)) == "INVALID_ARGUMENT");
  CHECK(session->DecRef(first->blocks()).ok());
  CHECK(Said(session->Alloc(request)) == "FAILED_PRECONDITION KEY_SPENT");
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A repeat of a call that still waits takes its place") {
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  const auto holder = *RawSession::Open(*client, {});
  const auto session = *RawSession::Open(*client, {});
  const v1::Blocks all = *holder->Alloc(4);
  v1::AllocRequest request;
  request.set_count(2);
  request.set_idempotency_key(1);
  request.mutable_wait()->set_seconds(60);
  const auto call = [&] { return session->Alloc(request); };
  auto first = std::async(std::launch::async, call);
  REQUIRE(node.BecomeWaiting(1));
  auto second = std::async(std::launch::async, call);
  CHECK(absl::IsAborted(first.get().status()));
  CHECK(node.Pool().waiting_calls() == 1);
  CHECK(holder->DecRef(all).ok());
  CHECK(Said(second.get()) == "OK");
  CHECK(node.Pool().held_blocks() == 2);
  CHECK(holder->Close().ok());
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("One session more than a process may have is refused as LIMIT, and the others live") {
  constexpr size_t kMaxSessions = 2'048;
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  v1::OpenSessionRequest request;
  request.mutable_ttl()->set_seconds(3'600);
  std::vector<std::unique_ptr<RawSession>> sessions;
  for (size_t i = 0; i < kMaxSessions; ++i) {
    auto session = RawSession::Open(*client, request);
    REQUIRE(Said(session) == "OK");
    sessions.push_back(*std::move(session));
  }
  CHECK(Said(RawSession::Open(*client, request)) == "RESOURCE_EXHAUSTED LIMIT");
  CHECK(Said(sessions.back()->Alloc(1)) == "OK");
  CHECK(node.Pool().sessions() == kMaxSessions);
  for (const auto& session : sessions) REQUIRE(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A worker's socket may not change what the daemon serves, nor see content") {
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  CHECK(Said(client->CreatePool(PoolJson("q", 4))) == "PERMISSION_DENIED");
  CHECK(Said(client->DeletePool("p")) == "PERMISSION_DENIED");
  CHECK(Said(client->TerminateSession("00", false)) == "PERMISSION_DENIED");
  v1::ChecksumLayersRequest request;
  request.set_pool("p");
  CHECK(Said(client->ChecksumLayers(request)) == "PERMISSION_DENIED");
  node.CheckAllIsBack();
}

TEST_CASE("A session of another tenant is not one's own") {
  const TempDir directory;
  const std::string first_socket = "unix:" + directory.File("first");
  const std::string second_socket = "unix:" + directory.File("second");
  DaemonProcess daemon(
      {.pools_json = OnePool(4),
       .listeners_json = absl::StrCat(
           R"([{"address": ")", first_socket, R"(", "role": "ROLE_WORKER", "tenant": "a"},
               {"address": ")",
           second_socket, R"(", "role": "ROLE_WORKER", "tenant": "b"}])"),
       .wait_until_serving = false});
  RawClient first(daemon.Connect(first_socket));
  RawClient second(daemon.Connect(second_socket));
  REQUIRE(Eventually([&] { return RawSession::Open(first, {}).ok(); }));
  const auto session = *RawSession::Open(first, {});
  const v1::Blocks block = *session->Alloc(1);
  const auto stranger = *RawSession::Open(second, {});

  v1::DecRefRequest request;
  request.set_session_id(session->id());
  *request.mutable_blocks() = block;
  CHECK(Said(second.DecRef(request)) == "PERMISSION_DENIED");
  CHECK(Said(second.CloseSession(session->id())) == "PERMISSION_DENIED");
  CHECK(Said(stranger->IncRef(block)) == "PERMISSION_DENIED");
  CHECK(Said(second.GetSession(session->id())) == "NOT_FOUND SESSION_UNKNOWN");
  CHECK(second.GetBlock("p", block.block_ids(0))->holders_size() == 0);
  CHECK(first.GetBlock("p", block.block_ids(0))->holders_size() == 1);
  CHECK(session->Close().ok());
  CHECK(stranger->Close().ok());
}

// A message of `grpc.reflection.v1alpha`: `list_services` is field 7, `services` of the answer
// holds their names.
TEST_CASE("Reflection lists every service") {
  Node node(/*num_blocks=*/4);
  const auto answer = node.eyes().Exchange(
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", std::string("\x3A\x01*"));
  REQUIRE(Said(answer) == "OK");
  for (const std::string name :
       {"kvpool.v1.BlockService", "kvpool.v1.InspectService", "kvpool.v1.AdminService",
        "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}) {
    CAPTURE(name);
    CHECK(answer->find(name) != std::string::npos);
  }
  node.CheckAllIsBack();
}

}  // namespace
}  // namespace kvpool::test
