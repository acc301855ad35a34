#include "server/rpc/inspect_convert.h"

#include <string>

#include "tests/support/catch.h"

namespace kvpool::server {
namespace {

const Viewer kAll{};
const Viewer kOwner{.tenant = "a"};
const Viewer kOther{.tenant = "b"};

SessionId MakeSession() {
  SessionId session;
  session.bytes.fill(0xAB);
  return session;
}

BlockInfo MakeBlock() {
  const TimePoint time(std::chrono::seconds(5));
  BlockInfo block;
  block.block = BlockId{7};
  block.generation = Generation{3};
  block.state = BlockState::kHeld;
  block.ref_count = 2;
  block.sealed = true;
  block.claimed = true;
  block.tenant = "a";
  block.holders = {{.session = MakeSession(), .client_name = "engine", .references = 2}};
  block.history = {{TraceOperation::kAlloc, 1, "Alloc:11111111", time},
                   {TraceOperation::kDec, 0, "DecRef:11111111", time},
                   {TraceOperation::kAlloc, 1, "Alloc:abababab", time},
                   {TraceOperation::kInc, 2, "IncRef:abababab", time}};
  return block;
}

WallClock MakeClock() {
  return WallClock([] { return TimePoint{}; });
}

TEST_CASE("Who sees all sees a block's tenant, holders and history") {
  const v1::BlockStatus message = ToMessage(MakeBlock(), kAll, MakeClock());
  CHECK(message.block_id() == 7);
  CHECK(message.generation() == 3);
  CHECK(message.state() == v1::BlockStatus::STATE_HELD);
  CHECK(message.ref_count() == 2);
  CHECK(message.sealed());
  CHECK(message.claimed());
  CHECK_FALSE(message.published());
  CHECK(message.tenant() == "a");
  REQUIRE(message.holders_size() == 1);
  CHECK(message.holders(0).session_id() == "abababab");
  CHECK(message.holders(0).client_name() == "engine");
  CHECK(message.holders(0).references() == 2);
  REQUIRE(message.history_size() == 4);
  CHECK(message.history(0).operation() == "alloc");
  CHECK(message.history(3).operation() == "inc");
  CHECK(message.history(3).ref_count_after() == 2);
  CHECK(message.history(3).caller() == "IncRef:abababab");
}

TEST_CASE("A block's message names the first 1,024 of its holders") {
  BlockInfo block = MakeBlock();
  block.holders.resize(2'000, block.holders.front());
  block.holders[1'023].references = 9;
  const v1::BlockStatus message = ToMessage(block, kAll, MakeClock());
  REQUIRE(message.holders_size() == 1'024);
  CHECK(message.holders(1'023).references() == 9);
}

TEST_CASE("A tenant sees the history of its own block from its latest allocation") {
  const v1::BlockStatus message = ToMessage(MakeBlock(), kOwner, MakeClock());
  CHECK(message.tenant() == "a");
  CHECK(message.holders_size() == 1);
  REQUIRE(message.history_size() == 2);
  CHECK(message.history(0).caller() == "Alloc:abababab");
}

TEST_CASE("History that has lost the allocation is all the owner's") {
  BlockInfo block = MakeBlock();
  block.history.erase(block.history.begin(), block.history.begin() + 3);
  CHECK(ToMessage(block, kOwner, MakeClock()).history_size() == 1);
}

TEST_CASE("Of another tenant's block only numbers and state are seen") {
  const v1::BlockStatus message = ToMessage(MakeBlock(), kOther, MakeClock());
  CHECK(message.state() == v1::BlockStatus::STATE_HELD);
  CHECK(message.generation() == 3);
  CHECK(message.ref_count() == 2);
  CHECK(message.tenant().empty());
  CHECK(message.holders_size() == 0);
  CHECK(message.history_size() == 0);
}

TEST_CASE("A brief message has neither holders nor history") {
  const v1::BlockStatus message = ToBriefMessage(MakeBlock(), kAll);
  CHECK(message.tenant() == "a");
  CHECK(message.holders_size() == 0);
  CHECK(message.history_size() == 0);
  CHECK(ToBriefMessage(MakeBlock(), kOther).tenant().empty());
}

TEST_CASE("Only inspectors and operators see all") {
  Peer peer;
  peer.tenant = "a";
  const auto sees = [&peer](v1::Role role) {
    peer.role = role;
    return ViewerOf(peer).Sees("b");
  };
  CHECK(sees(v1::ROLE_OPERATOR));
  CHECK(sees(v1::ROLE_INSPECTOR));
  CHECK_FALSE(sees(v1::ROLE_WORKER));
  CHECK_FALSE(sees(v1::ROLE_UNSPECIFIED));
  CHECK(ViewerOf(peer).Sees("a"));
}

TEST_CASE("A session's message shows no whole id") {
  SessionInfo session;
  session.id = MakeSession();
  session.joined = MakeSession();
  session.state = SessionState::kClaiming;
  session.blocks = {BlockId{1}, BlockId{2}};
  session.references = 3;
  const v1::SessionStatus message = ToMessage(session, "main", ReclaimProof::kDelay, MakeClock());
  CHECK(message.session_id() == "abababab");
  CHECK(message.joined_session_id() == "abababab");
  CHECK(message.DebugString().find("ababababab") == std::string::npos);
  CHECK(message.state() == v1::SessionStatus::STATE_CLAIMING);
  CHECK(message.pool() == "main");
  CHECK(message.block_ids_size() == 2);
  CHECK(message.references() == 3);
  CHECK(message.reclaim_proof() == v1::RECLAIM_PROOF_DELAY);
  session.joined = {};
  CHECK(ToMessage(session, "main", ReclaimProof::kPidfd, MakeClock()).joined_session_id().empty());
}

TEST_CASE("A tenant is not told the names of a pool's other tenants") {
  v1::PoolLayout layout;
  RedactTenants(kOwner, layout);
  CHECK(layout.spec().tenants().empty());
  layout.mutable_spec()->add_tenants("a");
  layout.mutable_spec()->add_tenants("c");
  v1::PoolLayout others = layout;
  v1::PoolLayout all = layout;

  RedactTenants(kOwner, layout);
  RedactTenants(kOther, others);
  RedactTenants(kAll, all);
  REQUIRE(layout.spec().tenants_size() == 1);
  CHECK(layout.spec().tenants(0) == "a");
  REQUIRE(others.spec().tenants_size() == 1);
  CHECK(others.spec().tenants(0) == "(others)");
  CHECK(all.spec().tenants_size() == 2);
}

TEST_CASE("A checksum converts whole") {
  const v1::SideChecksum message = ToMessage(SideChecksum{.sum = 1,
                                                          .sum_of_squares = 2,
                                                          .sum_of_absolutes = 3,
                                                          .nan_count = 4,
                                                          .crc32c = 5,
                                                          .has_sums = true});
  CHECK(message.sum() == 1);
  CHECK(message.sum_of_squares() == 2);
  CHECK(message.sum_of_absolutes() == 3);
  CHECK(message.nan_count() == 4);
  CHECK(message.crc32c() == 5);
  CHECK(message.has_sums());
}

}  // namespace
}  // namespace kvpool::server
