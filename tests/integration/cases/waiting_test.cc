// Waiting for room.
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/integration/support/node.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"

namespace kvpool::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("Waiting calls are served in order as another frees") {
  Node node(/*num_blocks=*/6);
  const auto client = node.Connect();
  const auto holder = *RawSession::Open(*client, {});
  const v1::Blocks all = *holder->Alloc(6);

  std::vector<std::unique_ptr<RawSession>> sessions;
  std::vector<std::future<absl::StatusOr<v1::Blocks>>> calls;
  for (uint32_t i = 0; i < 3; ++i) {
    sessions.push_back(*RawSession::Open(*client, {}));
    calls.push_back(std::async(std::launch::async, [session = sessions.back().get()] {
      return session->AllocWaiting(2, seconds(60));
    }));
    REQUIRE(node.BecomeWaiting(i + 1));
  }
  for (int i = 0; i < 3; ++i) {
    CAPTURE(i);
    // Room for all that is asked by one, a block at a time.
    REQUIRE(holder->DecRef(Id(all.block_ids(2 * i))).ok());
    CHECK(node.Pool().waiting_calls() == static_cast<uint32_t>(3 - i));
    REQUIRE(holder->DecRef(Id(all.block_ids(2 * i + 1))).ok());
    const auto served = calls[static_cast<size_t>(i)].get();
    REQUIRE(Said(served) == "OK");
    CHECK(served->block_ids_size() == 2);
    CHECK(node.Pool().waiting_calls() == static_cast<uint32_t>(2 - i));
  }
  for (const auto& session : sessions) CHECK(session->Close().ok());
  CHECK(holder->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("Nobody overtakes who waits, and who waits too long is told POOL_FULL") {
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  const auto holder = *RawSession::Open(*client, {});
  const auto first = *RawSession::Open(*client, {});
  const auto second = *RawSession::Open(*client, {});
  REQUIRE(holder->Alloc(2).ok());

  auto waiting = std::async(std::launch::async, [&] { return first->AllocWaiting(4, seconds(2)); });
  REQUIRE(node.BecomeWaiting(1));
  CHECK(Said(second->Alloc(1)) == "RESOURCE_EXHAUSTED POOL_FULL");
  CHECK(second->AllocUpTo(1)->block_ids_size() == 0);
  const auto late = waiting.get();
  CHECK(Said(late) == "RESOURCE_EXHAUSTED POOL_FULL");
  CHECK(GetErrorDetail(late.status()).available == 2);
  CHECK(Said(second->Alloc(1)) == "OK");
  for (RawSession* session : {holder.get(), first.get(), second.get()}) {
    CHECK(session->Close().ok());
  }
  node.CheckAllIsBack();
}

TEST_CASE("Two sessions that each hold half and wait for the other end by their deadlines") {
  Node node(/*num_blocks=*/10);
  const auto client = node.Connect();
  const auto first = *RawSession::Open(*client, {});
  const auto second = *RawSession::Open(*client, {});
  REQUIRE(first->Alloc(6).ok());
  const v1::Blocks of_second = *second->Alloc(4);
  auto waiting =
      std::async(std::launch::async, [&] { return first->AllocWaiting(4, milliseconds(500)); });
  auto also_waiting =
      std::async(std::launch::async, [&] { return second->AllocWaiting(6, milliseconds(500)); });
  CHECK(Said(waiting.get()) == "RESOURCE_EXHAUSTED POOL_FULL");
  CHECK(Said(also_waiting.get()) == "RESOURCE_EXHAUSTED POOL_FULL");
  CHECK(second->DecRef(of_second).ok());
  CHECK(first->Close().ok());
  CHECK(second->Close().ok());
  node.CheckAllIsBack();
}

// gRPC runs handlers on a few threads: a call that waits must not hold one.
TEST_CASE("Many waiting calls leave every other call served") {
  constexpr int kWaiting = UnlessSanitized(200, 60);
  Node node(/*num_blocks=*/4);
  const auto holder_client = node.Connect();
  const auto client = node.Connect();
  const auto holder = *RawSession::Open(*holder_client, {});
  REQUIRE(holder->Attach().ok());
  const v1::Blocks all = *holder->Alloc(4);
  const auto session = *RawSession::Open(*client, {});
  std::vector<std::future<std::string>> calls;
  for (int i = 0; i < kWaiting; ++i) {
    calls.push_back(std::async(std::launch::async, [&] {
      const auto blocks = session->AllocWaiting(4, seconds(60));
      if (!blocks.ok()) return Said(blocks);
      return Said(session->DecRef(*blocks));  // For the next.
    }));
  }
  REQUIRE(node.BecomeWaiting(kWaiting));

  for (int i = 0; i < 100; ++i) {
    v1::AllocRequest nothing;
    REQUIRE(Said(holder->Alloc(nothing, seconds(5))) == "OK");
    REQUIRE(Said(holder->IncRef(all)) == "OK");
    REQUIRE(Said(holder->DecRef(all)) == "OK");
  }
  const auto another = RawSession::Open(*holder_client, {});
  REQUIRE(Said(another) == "OK");
  CHECK(Said((*another)->Close()) == "OK");

  CHECK(Said(holder->DecRef(all)) == "OK");
  for (auto& call : calls) REQUIRE(call.get() == "OK");
  holder->Detach();
  CHECK(holder->Close().ok());
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A session's own release serves its call and nobody else") {
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  const auto first = *RawSession::Open(*client, {});
  const auto second = *RawSession::Open(*client, {});
  const v1::Blocks held = *first->Alloc(2);
  REQUIRE(second->Alloc(2).ok());
  v1::AllocRequest request;
  request.set_count(3);
  *request.mutable_release() = held;
  CHECK(Said(first->Alloc(request)) == "RESOURCE_EXHAUSTED POOL_FULL");
  CHECK(node.Pool().held_blocks() == 4);  // What failed has let nothing go.
  request.set_count(1);
  CHECK(Said(first->Alloc(request)) == "OK");
  CHECK(node.FreeBlocks() == 1);
  CHECK(first->Close().ok());
  CHECK(second->Close().ok());
  node.CheckAllIsBack();
}

}  // namespace
}  // namespace kvpool::test
