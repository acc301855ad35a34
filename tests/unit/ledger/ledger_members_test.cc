#include "tests/unit/ledger/ledger_fixture.h"

namespace kvpool::test {
namespace {

constexpr ProcessId kMember{5};

TEST_CASE("Ledger joins a session to a live one of the tenant, not itself joined") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId parent = f.Open(1);
  const SessionId member = f.Join(2, parent, kMember);
  CHECK(f.ledger.GetSession(member, 0)->joined == parent);
  CHECK(f.ledger.GetSession(parent, 0)->joined == SessionId{});
  CHECK(f.ledger.counts().sessions == 2);

  CheckUnknown(f.TryOpen(3, {.join = IdOf(9)}).status());
  CHECK(f.TryOpen(3, {.tenant = "other", .join = parent}).status().code() ==
        absl::StatusCode::kPermissionDenied);
  CheckError(f.TryOpen(3, {.join = member}).status(), absl::StatusCode::kFailedPrecondition,
             Reason::kJoined);
  CHECK(f.TryOpen(3, {.model_id = "m", .join = parent}).status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(f.TryOpen(3, {.guaranteed_blocks = 1, .join = parent}).status().code() ==
        absl::StatusCode::kInvalidArgument);
  f.Detach(parent);
  CheckUnknown(f.TryOpen(3, {.join = parent}).status());
}

TEST_CASE("Ledger's joined session holds nothing of its own") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId parent = f.Open(1);
  const SessionId member = f.Join(2, parent, kMember);
  const auto joined = [](const absl::Status& status) {
    CheckError(status, absl::StatusCode::kFailedPrecondition, Reason::kJoined);
  };
  joined(f.TryAlloc(member, {.count = 1}).status());
  joined(f.IncRef(member, {}));
  joined(f.DecRef(member, {}).status());
  joined(f.TryPin(member, {}, {}).status());
  joined(f.ledger.CheckHeld(f.Of(member), {}));
  joined(f.ledger.BeginCall(f.Of(member), f.now));
  CHECK(f.ledger.AddProcess(f.Of(member), ProcessId{6}, f.now).ok());
  CHECK(f.ledger.Attach(f.Of(member), kMember, f.now).ok());
}

TEST_CASE("Ledger's member that closes vouches for its own process alone") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId parent = f.Open(1);
  const SessionId member = f.Join(2, parent, kMember);
  f.Alloc(parent, 2);
  REQUIRE(f.Close(member).ok());
  CHECK(f.Take<MemberGone>().empty());
  f.Detach(parent);
  CHECK(f.ledger.counts().quarantined_blocks == 2);
  f.Gone(kProcess);
  CHECK(f.FreeBlocks() == 2);
}

TEST_CASE("Ledger's member that ends otherwise claims what its parent holds then") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId parent = f.Open(1);
  const SessionId member = f.Join(2, parent, kMember);
  const auto before = f.Alloc(parent, 2);
  f.Detach(member);
  const auto gone = f.Take<MemberGone>();
  REQUIRE(gone.size() == 1);
  CHECK(gone[0].id == parent);
  const auto after = f.Alloc(parent, 1);
  CHECK(f.ledger.GetBlock(before[0].block).claimed);
  CHECK_FALSE(f.ledger.GetBlock(after[0].block).claimed);

  f.Drop(parent, {before[0], after[0]});
  CHECK(f.StateOf(before[0]) == BlockState::kQuarantined);
  CHECK(f.StateOf(after[0]) == BlockState::kFree);
  f.Gone(kMember);
  CHECK(f.StateOf(before[0]) == BlockState::kFree);
  CHECK_FALSE(f.ledger.GetBlock(before[1].block).claimed);
  CHECK(f.StateOf(before[1]) == BlockState::kHeld);
}

TEST_CASE("Ledger's member that expires or whose process dies is told to its parent") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId parent = f.Open(1, {.ttl = seconds(100)});
  SECTION("expires") {
    f.Open(2, {.process = kMember, .ttl = seconds(5), .join = parent});
    f.Pass(seconds(5));
  }
  SECTION("its process dies") {
    const SessionId member = f.Join(2, parent, kMember);
    REQUIRE(f.ledger.Attach(f.Of(member), kMember, f.now).ok());
    f.Alloc(parent, 2);
    f.Gone(kMember);
    CHECK_FALSE(f.ledger.GetBlock(BlockId{0}).claimed);  // It writes no more.
  }
  SECTION("an operator ends it") {
    const SessionId member = f.Join(2, parent, kMember);
    f.Alloc(parent, 2);
    REQUIRE(f.Terminate(member, /*release_claims=*/true).ok());
    CHECK_FALSE(f.ledger.GetBlock(BlockId{0}).claimed);
  }
  CHECK(f.Take<MemberGone>().size() == 1);
  CHECK(f.ledger.GetSession(parent, 0)->state == SessionState::kUnattached);
}

TEST_CASE("Ledger claims for the processes of a parent's members as for its own") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId parent = f.Open(1);
  const SessionId member = f.Join(2, parent, kMember);
  f.Alloc(parent, 2);
  f.Take<SessionEnded>();
  f.Detach(parent);
  const auto ended = f.Take<SessionEnded>();
  REQUIRE(ended.size() == 2);
  CHECK(ended[0].reason == SessionEnd::kDetached);
  CHECK(ended[1].id == member);
  CHECK(ended[1].reason == SessionEnd::kParentEnded);
  CHECK(f.Take<MemberGone>().empty());

  f.Gone(kProcess);
  CHECK(f.ledger.counts().quarantined_blocks == 2);
  SECTION("the member's process goes") { f.Gone(kMember); }
  SECTION("the member's owner vouches for it") { REQUIRE(f.Close(member).ok()); }
  CHECK(f.FreeBlocks() == 2);
  CHECK(f.ledger.is_idle());
}

TEST_CASE("Ledger's parent that closes ends its members and vouches for them") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId parent = f.Open(1);
  const SessionId live = f.Join(2, parent, kMember);
  const SessionId ended = f.Join(3, parent, ProcessId{6});
  f.Alloc(parent, 2);
  f.Detach(ended);
  REQUIRE(f.ledger.GetBlock(BlockId{0}).claimed);
  f.Take<SessionEnded>();
  REQUIRE(f.Close(parent).ok());
  const auto events = f.Take<SessionEnded>();
  REQUIRE(events.size() == 2);
  CHECK(events[1].id == live);
  CHECK(events[1].reason == SessionEnd::kClosed);
  CHECK(f.FreeBlocks() == 2);
  CHECK(f.ledger.is_idle());
  CHECK(f.ledger.ListSessions().empty());
}

TEST_CASE("Ledger's parent closed after its end vouches for members that ended before or with it") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId parent = f.Open(1);
  f.Join(2, parent, kMember);
  const SessionId before = f.Join(3, parent, ProcessId{6});
  f.Alloc(parent, 2);
  f.Detach(before);
  f.Detach(parent);
  CHECK(f.ledger.ListSessions().size() == 3);
  SECTION("by its owner") { REQUIRE(f.Close(parent).ok()); }
  SECTION("by an operator") { REQUIRE(f.Terminate(parent, /*release_claims=*/true).ok()); }
  CHECK(f.FreeBlocks() == 2);
  CHECK(f.ledger.ListSessions().empty());
}

TEST_CASE("Ledger's operator who ends a parent with its claims ends its members' too") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId parent = f.Open(1);
  const SessionId member = f.Join(2, parent, kMember);
  f.Alloc(parent, 2);
  REQUIRE(f.Terminate(parent, /*release_claims=*/true).ok());
  const auto ended = f.Take<SessionEnded>();
  REQUIRE(ended.size() == 2);
  CHECK(ended[1].id == member);
  CHECK(ended[1].reason == SessionEnd::kParentEnded);
  CHECK(f.FreeBlocks() == 2);
  CHECK(f.ledger.is_idle());
}

TEST_CASE("Ledger's grace counts from the last of a parent's and its members' processes") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/1);
  options.claim_grace = milliseconds(50);
  LedgerFixture f(options);
  const SessionId parent = f.Open(1);
  f.Join(2, parent, kMember);
  f.Alloc(parent, 1);
  f.Detach(parent);
  f.Gone(kProcess);
  f.Pass(seconds(1));
  f.Gone(kMember);
  f.Pass(milliseconds(49));
  CHECK(f.FreeBlocks() == 0);
  f.Pass(milliseconds(1));
  CHECK(f.FreeBlocks() == 1);
  CHECK(f.ledger.is_idle());
}

TEST_CASE("Ledger ends a parent's claims at their own time though a member's end before") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/1);
  options.claim_grace = milliseconds(50);
  LedgerFixture f(options);
  const SessionId parent = f.Open(1);
  f.Join(2, parent, kMember);
  const SessionId other = f.Open(3, {.process = ProcessId{9}});
  f.Alloc(parent, 1);
  f.Detach(parent);
  f.Gone(kMember);
  f.Pass(milliseconds(20));
  f.Gone(kProcess);
  const PendingId id = f.AllocLater(other, {.count = 1, .wait = milliseconds(40)});
  f.Pass(seconds(1));
  CheckFull(f.TakeAnswer(id).status(), 0);
  CHECK(f.FreeBlocks() == 1);
}

TEST_CASE("Ledger lets one process be a parent's and a member's at once") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId parent = f.Open(1);
  const SessionId member = f.Join(2, parent, kProcess);
  REQUIRE(f.ledger.Attach(f.Of(parent), kProcess, f.now).ok());
  REQUIRE(f.ledger.Attach(f.Of(member), kProcess, f.now).ok());
  f.Alloc(parent, 1);
  f.Gone(kProcess);
  CHECK(f.FreeBlocks() == 1);
  CHECK(f.ledger.is_idle());
  CHECK(f.Take<SessionForgotten>().size() == 2);
}

}  // namespace
}  // namespace kvpool::test
