#include "tests/unit/ledger/ledger_fixture.h"

// What a session claims of the one that it had joined.

namespace kvpool::test {
namespace {

constexpr ProcessId kMember{5};
constexpr ProcessId kOtherMember{6};

TEST_CASE("Ledger's member claims, and no block that it claims gets away") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/10);
  options.limits.reclaim_slice = 3;
  LedgerFixture f(options);
  const SessionId parent = f.Open(1);
  const SessionId member = f.Join(2, parent, kMember);
  const auto blocks = f.Alloc(parent, 8);
  f.Detach(member);
  SECTION("the parent lets one go") {
    f.Drop(parent, {blocks[0]});
    CHECK(f.StateOf(blocks[0]) == BlockState::kQuarantined);
    CHECK(f.ledger.GetSession(member, 0)->state == SessionState::kClaiming);
    f.Gone(kMember);
    f.ledger.Reclaim(100, f.now);
    CHECK(f.FreeBlocks() == 3);
  }
  SECTION("the parent releases one in an Alloc") {
    f.AllocNow(parent, {.count = 1, .release = {blocks[0]}});
    CHECK(f.StateOf(blocks[0]) == BlockState::kQuarantined);
  }
  SECTION("the parent ends") {
    f.Detach(parent);
    f.ledger.Reclaim(100, f.now);
    CHECK(f.ledger.counts().quarantined_blocks == 8);
    f.Gone(kProcess);
    f.ledger.Reclaim(100, f.now);
    CHECK(f.ledger.counts().quarantined_blocks == 8);
    f.Gone(kMember);
    f.ledger.Reclaim(100, f.now);
    CHECK(f.FreeBlocks() == 10);
  }
  SECTION("the member's process goes") {
    f.Gone(kMember);
    f.ledger.Reclaim(100, f.now);
    for (const BlockRef& block : blocks) CHECK_FALSE(f.ledger.GetBlock(block.block).claimed);
  }
  SECTION("at once, however many there are") {
    CHECK_FALSE(f.ledger.Reclaim(1, f.now));
    for (const BlockRef& block : blocks) {
      CHECK(f.ledger.GetBlock(block.block).claimed);
      CheckError(f.TryPin(parent, {}, {block}).status(), absl::StatusCode::kFailedPrecondition,
                 Reason::kClaimed);
    }
    const auto later = f.Alloc(parent, 1);
    CHECK_FALSE(f.ledger.GetBlock(later[0].block).claimed);
    f.Drop(parent, {later[0], blocks[3]});
    CHECK(f.StateOf(later[0]) == BlockState::kFree);
    CHECK(f.StateOf(blocks[3]) == BlockState::kQuarantined);
  }
  SECTION("and its parent keeps a second reference") {
    REQUIRE(f.IncRef(parent, {blocks[0]}).ok());
    f.Drop(parent, {blocks[0]});
    CHECK(f.ledger.GetBlock(blocks[0].block).claimed);
    f.Gone(kMember);
    CHECK_FALSE(f.ledger.GetBlock(blocks[0].block).claimed);
    f.Drop(parent, {blocks[0]});
    CHECK(f.StateOf(blocks[0]) == BlockState::kFree);
  }
  f.CheckInvariants();
}

TEST_CASE("Ledger counts nothing of what an Alloc releases that a member has yet to claim") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/4);
  options.limits.reclaim_slice = 1;
  LedgerFixture f(options);
  const SessionId parent = f.Open(1);
  const SessionId member = f.Join(2, parent, kMember);
  const auto blocks = f.Alloc(parent, 4);
  SECTION("at once") {
    f.Detach(member);
    CheckFull(f.TryAlloc(parent, {.count = 1, .release = {blocks[0]}}).status(), 0);
  }
  SECTION("waiting") {
    const SessionId other = f.Open(3);
    REQUIRE(f.IncRef(other, {blocks[0]}).ok());
    const PendingId id = f.AllocLater(parent, {.count = 1, .release = {blocks[0]}});
    f.Detach(member);
    f.Drop(other, {blocks[0]});
    CHECK(f.Take<AllocDone>().empty());
    f.Gone(kMember);
    f.ledger.Reclaim(100, f.now);
    CHECK(f.TakeAnswer(id).ok());
  }
}

TEST_CASE("Ledger serves a waiting Alloc when the claim on what it releases ends") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId parent = f.Open(1);
  const SessionId member = f.Join(2, parent, kMember);
  const auto blocks = f.Alloc(parent, 2);
  f.Detach(member);
  SECTION("by the end of the member's process") {
    const PendingId id = f.AllocLater(parent, {.count = 1, .release = {blocks[0]}});
    f.Gone(kMember);
    CHECK(f.TakeAnswer(id).ok());
  }
  SECTION("by a word for it") {
    const PendingId id = f.AllocLater(parent, {.count = 1, .release = {blocks[0]}});
    REQUIRE(f.Terminate(member, /*release_claims=*/true).ok());
    CHECK(f.TakeAnswer(id).ok());
  }
}

TEST_CASE("Ledger keeps a block claimed until all members that claim it are gone") {
  LedgerFixture f(/*num_blocks=*/3);
  const SessionId parent = f.Open(1);
  const SessionId first = f.Join(2, parent, kMember);
  const SessionId second = f.Join(3, parent, kOtherMember);
  const auto blocks = f.Alloc(parent, 2);
  f.Detach(first);
  const auto later = f.Alloc(parent, 1);
  f.Detach(second);
  const ProcessId earlier_gone = GENERATE(kMember, kOtherMember);
  const bool is_let_go_before = GENERATE(true, false);
  if (is_let_go_before) f.Drop(parent, {blocks[0], later[0]});
  f.Gone(earlier_gone);
  if (!is_let_go_before) f.Drop(parent, {blocks[0], later[0]});
  CHECK(f.StateOf(blocks[0]) == BlockState::kQuarantined);
  CHECK(f.ledger.GetBlock(blocks[1].block).claimed);
  // The first had ended when it was taken.
  CHECK(f.StateOf(later[0]) ==
        (earlier_gone == kOtherMember ? BlockState::kFree : BlockState::kQuarantined));
  f.Gone(earlier_gone == kMember ? kOtherMember : kMember);
  CHECK(f.FreeBlocks() == 2);
  CHECK_FALSE(f.ledger.GetBlock(blocks[1].block).claimed);
  CHECK(f.Take<SessionForgotten>().size() == 2);
}

TEST_CASE("Ledger's member claims no block that was let go and taken again after its end") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId parent = f.Open(1);
  const SessionId other = f.Open(3);
  const SessionId first = f.Join(2, parent, kMember);
  const SessionId second = f.Join(4, parent, kOtherMember);
  const auto blocks = f.Alloc(parent, 4);
  f.Detach(first);
  REQUIRE(f.IncRef(other, {blocks[1]}).ok());
  f.Drop(parent, {blocks[1]});
  CHECK(f.ledger.GetBlock(blocks[1].block).claimed);
  f.Detach(second);
  REQUIRE(f.IncRef(parent, {blocks[1]}).ok());
  f.Gone(kMember);
  CHECK_FALSE(f.ledger.GetBlock(blocks[1].block).claimed);
  f.Drop(parent, {blocks[1]});
  CHECK_FALSE(f.ledger.GetBlock(blocks[1].block).claimed);
  CHECK(f.ledger.GetBlock(blocks[2].block).claimed);
}

TEST_CASE("Ledger's claim outlives the parent that let its block go") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId parent = f.Open(1);
  const SessionId first = f.Join(2, parent, kMember);
  const SessionId second = f.Join(3, parent, kOtherMember);
  const auto blocks = f.Alloc(parent, 2);
  f.Detach(first);
  f.Detach(second);
  f.Drop(parent, {blocks[0]});
  f.Detach(parent);
  f.Gone(kProcess);
  f.Gone(kOtherMember);
  CHECK(f.ledger.counts().quarantined_blocks == 2);
  f.Gone(kMember);
  CHECK(f.FreeBlocks() == 2);
  CHECK(f.Take<SessionForgotten>().size() == 3);
}

}  // namespace
}  // namespace kvpool::test
