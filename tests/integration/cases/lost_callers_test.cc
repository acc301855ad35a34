// Callers that give up, answers that get lost, room that is not there.
#include <future>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/integration/support/node.h"
#include "tests/integration/support/prefix_user.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"
#include "tests/support/random.h"

namespace kvpool::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

v1::OpenSessionRequest WithTtl(int64_t ttl_seconds) {
  v1::OpenSessionRequest request;
  request.mutable_ttl()->set_seconds(ttl_seconds);
  return request;
}

// Nobody calls meanwhile, the test included: it reads the daemon's log.
TEST_CASE("An unattached session that nobody calls for its ttl ends without any traffic") {
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  const auto begin = std::chrono::steady_clock::now();
  const auto session = *RawSession::Open(*client, WithTtl(1));
  REQUIRE(session->Alloc(4).ok());

  CHECK(Eventually([&] {
    return node.daemon().Log().find("event=session_ended session=" + session->id().substr(0, 8)) !=
           std::string::npos;
  }));
  CHECK(std::chrono::steady_clock::now() - begin >= seconds(1));
  CHECK(Said(session->Alloc(0)) == "NOT_FOUND SESSION_UNKNOWN");
  // This process might still write to the blocks of a session that it did not close.
  CHECK(node.Pool().quarantined_blocks() == 4);
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A session that is called lives past its ttl") {
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  const auto called = *RawSession::Open(*client, WithTtl(1));
  const auto other = *RawSession::Open(*client, WithTtl(60));
  REQUIRE(other->Alloc(4).ok());
  // A running call counts: this one runs for twice the ttl.
  CHECK(Said(called->AllocWaiting(1, seconds(2))) == "RESOURCE_EXHAUSTED POOL_FULL");
  CHECK(Said(called->Alloc(0)) == "OK");
  CHECK(called->Close().ok());
  CHECK(other->Close().ok());
  node.CheckAllIsBack();
}

// The server cannot know whether an answer arrived. The key makes the repeat the same call.
TEST_CASE("A call repeated by its key after a lost answer has happened once") {
  constexpr int kCalls = UnlessSanitized(1'000, 300);
  constexpr int kMostCalls = 50'000;  // Where no answer is lost before: some in a hundred are.
  Node node(/*num_blocks=*/8);
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  const uint64_t seed = Seed();
  Random random(seed);
  CAPTURE(seed);
  int lost = 0;
  for (int i = 1; i <= kCalls || (lost == 0 && i <= kMostCalls); ++i) {
    v1::AllocRequest request;
    request.set_count(2);
    request.set_idempotency_key(static_cast<uint64_t>(i));
    // About as long as a call takes, so that some answers are lost and some calls never begin.
    const auto deadline = std::chrono::microseconds(50 + random.Below(1'000));
    if (!session->Alloc(request, deadline).ok()) ++lost;
    const auto answer = session->Alloc(request);
    REQUIRE(Said(answer) == "OK");
    REQUIRE(answer->available() == 6);
    REQUIRE(Said(session->DecRef(answer->blocks())) == "OK");
  }
  CHECK(lost > 0);
  CHECK(node.FreeBlocks() == 8);
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

// Field case 20.
TEST_CASE("What lost answers of lookups hold goes with the session") {
  constexpr int kCalls = UnlessSanitized(1'000, 300);
  constexpr int kMostCalls = 50'000;
  constexpr int kChain = 8;
  Node node(/*num_blocks=*/kChain);
  const auto client = node.Connect();
  PrefixUser user(*client);
  RawSession* const session = &user.session();
  const v1::Prefix prefix = BlocksOf({0, 1, 2, 3, 4, 5, 6, 7});
  user.Cache(prefix);
  const uint64_t seed = Seed();
  Random random(seed);
  CAPTURE(seed);
  uint32_t lost = 0;
  for (int i = 0; i < kCalls || (lost == 0 && i < kMostCalls); ++i) {
    const auto answer = user.TryLookup(prefix, /*acquire=*/true,
                                       std::chrono::microseconds(50 + random.Below(1'000)));
    if (answer.ok()) REQUIRE(Said(session->DecRef(answer->blocks())) == "OK");
    if (i >= kCalls - 1) lost = node.Pool().held_blocks();
  }
  CHECK(lost > 0);
  CHECK(session->Close().ok());
  CHECK(node.Pool().held_blocks() == 0);
  CHECK(node.Pool().cached_blocks() == kChain);
  CHECK(Said(node.eyes().ResetPrefixes("p")) == "OK");
  node.CheckAllIsBack();
}

TEST_CASE("What lost answers took goes with the session") {
  constexpr int kCalls = UnlessSanitized(1'000, 300);
  constexpr int kMostCalls = 50'000;
  Node node(/*num_blocks=*/4'096);
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  const uint64_t seed = Seed();
  Random random(seed);
  CAPTURE(seed);
  v1::AllocRequest request;
  request.set_count(2);
  uint32_t lost = 0;
  // What arrived is given back, so that only what was carried out and not told is held.
  for (int i = 0; i < kCalls || (lost == 0 && i < kMostCalls); ++i) {
    const auto answer =
        session->Alloc(request, std::chrono::microseconds(50 + random.Below(1'000)));
    if (answer.ok()) REQUIRE(Said(session->DecRef(answer->blocks())) == "OK");
    if (i >= kCalls - 1) lost = node.Pool().held_blocks();
  }
  CHECK(lost > 0);
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A waiting call whose caller gave up gets nothing") {
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  const auto holder = *RawSession::Open(*client, {});
  const auto waiting = *RawSession::Open(*client, {});
  const v1::Blocks all = *holder->Alloc(4);

  v1::AllocRequest request;
  request.set_count(4);
  request.mutable_wait()->set_seconds(10);
  CHECK(Said(waiting->Alloc(request, milliseconds(50))) == "DEADLINE_EXCEEDED");
  REQUIRE(node.BecomeWaiting(0));
  CHECK(holder->DecRef(all)->available() == 4);
  CHECK(node.FreeBlocks() == 4);
  CHECK(holder->Close().ok());
  CHECK(waiting->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("A call for more than is free takes nothing and says how many there are") {
  Node node(/*num_blocks=*/8);
  const auto client = node.Connect();
  const auto holder = *RawSession::Open(*client, {});
  const auto session = *RawSession::Open(*client, {});
  REQUIRE(holder->Alloc(4).ok());

  const auto refused = session->Alloc(6);
  CHECK(Said(refused) == "RESOURCE_EXHAUSTED POOL_FULL");
  CHECK(GetErrorDetail(refused.status()).available == 4);
  CHECK(Said(session->AllocWaiting(6, milliseconds(20))) == "RESOURCE_EXHAUSTED POOL_FULL");
  CHECK(node.FreeBlocks() == 4);
  // More than there ever are does not wait.
  CHECK(Said(session->AllocWaiting(9, seconds(60))) == "INVALID_ARGUMENT");
  CHECK(holder->Close().ok());
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("Of two calls that race for room for one, exactly one wins") {
  Node node(/*num_blocks=*/4);
  const auto first_client = node.Connect();
  const auto second_client = node.Connect();
  const auto first = *RawSession::Open(*first_client, {});
  const auto second = *RawSession::Open(*second_client, {});
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    auto racing = std::async(std::launch::async, [&] { return first->Alloc(3); });
    const auto here = second->Alloc(3);
    const auto there = racing.get();
    REQUIRE(here.ok() != there.ok());
    REQUIRE(Said(here.ok() ? there : here) == "RESOURCE_EXHAUSTED POOL_FULL");
    REQUIRE(node.FreeBlocks() == 1);
    REQUIRE(Said(here.ok() ? second->DecRef(*here) : first->DecRef(*there)) == "OK");
  }
  CHECK(first->Close().ok());
  CHECK(second->Close().ok());
  node.CheckAllIsBack();
}

TEST_CASE("Closing a session twice is NOT_FOUND, and so is all that it is asked then") {
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  const auto session = *RawSession::Open(*client, {});
  const v1::Blocks block = *session->Alloc(1);
  CHECK(Said(session->Close()) == "OK");

  CHECK(Said(session->Close()) == "NOT_FOUND SESSION_UNKNOWN");
  CHECK(Said(session->Alloc(1)) == "NOT_FOUND SESSION_UNKNOWN");
  CHECK(Said(session->IncRef(block)) == "NOT_FOUND SESSION_UNKNOWN");
  CHECK(Said(session->DecRef(block)) == "NOT_FOUND SESSION_UNKNOWN");
  CHECK(Said(session->Fill(block, v1::FILL_ZERO)) == "NOT_FOUND SESSION_UNKNOWN");
  CHECK(Said(session->Copy(block, block)) == "NOT_FOUND SESSION_UNKNOWN");
  CHECK(Said(session->Read(block)) == "NOT_FOUND SESSION_UNKNOWN");
  CHECK(Said(session->Write(0, 0, v1::SIDE_K, 0, "x")) == "NOT_FOUND SESSION_UNKNOWN");
  CHECK(Said(session->Attach()) == "NOT_FOUND SESSION_UNKNOWN");
  node.CheckAllIsBack();
}

TEST_CASE("Calls about nothing succeed and do nothing") {
  Node node(/*num_blocks=*/4);
  const auto client = node.Connect();
  CHECK((*RawSession::Open(*client, {}))->Close().ok());
  const auto hasty = *RawSession::Open(*client, {});
  client->KeepAlive(hasty->id()).reset();  // Gone before it is told that it is attached.
  CHECK(Said(hasty->Close()) == "OK");

  PrefixUser user(*client);
  RawSession* const session = &user.session();
  CHECK(session->Alloc(0)->block_ids().empty());
  CHECK(user.TryPublish({}, {})->published() == 0);
  CHECK(user.Hold({}).block_ids().empty());
  CHECK(user.TryAcquire({}, 0)->blocks().block_ids().empty());
  CHECK(user.TryEvict(0)->block_ids().empty());
  CHECK(Said(session->IncRef({})) == "OK");
  CHECK(Said(session->DecRef({})) == "OK");
  CHECK(Said(session->Fill({}, v1::FILL_ZERO)) == "OK");
  CHECK(Said(session->Copy({}, {})) == "OK");
  CHECK(session->Read({})->empty());
  CHECK(node.FreeBlocks() == 4);
  CHECK(session->Close().ok());
  node.CheckAllIsBack();
}

}  // namespace
}  // namespace kvpool::test
