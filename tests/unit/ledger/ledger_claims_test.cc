#include "tests/unit/ledger/ledger_fixture.h"

namespace kvpool::test {
namespace {

TEST_CASE("Ledger quarantines the blocks of a session that ended until its process is gone") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2, {.process = ProcessId{2}});
  const auto blocks = f.Alloc(a, 3);
  f.Detach(a);
  CHECK(f.ledger.counts().quarantined_blocks == 3);
  CHECK(f.ledger.counts().held_blocks == 0);
  CHECK(f.StateOf(blocks[0]) == BlockState::kQuarantined);
  CHECK(f.ledger.GetBlock(blocks[0].block).claimed);
  CHECK(f.ledger.GetBlock(blocks[0].block).holders.empty());
  CHECK(f.ledger.GetSession(a, 9)->state == SessionState::kClaiming);
  CHECK(f.ledger.GetSession(a, 9)->blocks.empty());
  CheckFull(f.TryAlloc(b, {.count = 2}).status(), 1);
  const PendingId id = f.AllocLater(b, {.count = 2});

  f.Gone(kProcess);
  CHECK(f.TakeAnswer(id).ok());
  CHECK(f.ledger.counts().quarantined_blocks == 0);
  CheckUnknown(f.ledger.GetSession(a, 9).status());
}

// Field case 25.
TEST_CASE("Ledger keeps a claimed block from Alloc though the last who held it lets it go") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2, {.process = ProcessId{2}});
  const auto blocks = f.Alloc(a, 1);
  REQUIRE(f.IncRef(b, blocks).ok());
  f.Detach(b);
  CHECK(f.StateOf(blocks[0]) == BlockState::kHeld);
  CHECK(f.ledger.GetBlock(blocks[0].block).claimed);
  const auto answer = f.DecRef(a, blocks);
  REQUIRE(answer.ok());
  CHECK(answer->freed == 0);
  CHECK(f.StateOf(blocks[0]) == BlockState::kQuarantined);
  CheckUnknown(f.IncRef(b, blocks));
  f.Gone(ProcessId{2});
  CHECK(f.FreeBlocks() == 1);
}

TEST_CASE("Ledger claims a block for each of its sessions that ended") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1, {.process = ProcessId{1}});
  const SessionId b = f.Open(2, {.process = ProcessId{2}});
  const auto blocks = f.Alloc(a, 1);
  REQUIRE(f.IncRef(b, blocks).ok());
  f.Detach(a);
  f.Detach(b);
  f.Gone(ProcessId{1});
  CHECK(f.FreeBlocks() == 0);
  f.Gone(ProcessId{2});
  CHECK(f.FreeBlocks() == 1);
}

TEST_CASE("Ledger ends the claims of a session when it is closed after all, and only then") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  f.Alloc(a, 2);
  f.Detach(a);
  f.Take<SessionForgotten>();
  CHECK_FALSE(f.ledger.is_idle());
  REQUIRE(f.Close(a).ok());
  CHECK(f.FreeBlocks() == 2);
  CHECK(f.Take<SessionForgotten>().size() == 1);
  CHECK(f.ledger.is_idle());
  CheckUnknown(f.Close(a));
}

TEST_CASE("Ledger keeps a session that claims nothing while its process maps the memory") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  f.Detach(a);
  CHECK(f.ledger.counts().sessions == 0);
  CHECK(f.ledger.GetSession(a, 0)->state == SessionState::kClaiming);
  CHECK_FALSE(f.ledger.is_idle());
  f.Gone(kProcess);
  CHECK(f.Take<SessionForgotten>().size() == 1);
  CHECK(f.ledger.is_idle());
}

TEST_CASE("Ledger waits for every process that a session was opened by, attached to or gave") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  REQUIRE(f.ledger.Attach(f.Of(a), ProcessId{2}, f.now).ok());
  REQUIRE(f.ledger.AddProcess(f.Of(a), ProcessId{3}, f.now).ok());
  REQUIRE(f.ledger.AddProcess(f.Of(a), ProcessId{3}, f.now).ok());
  f.Alloc(a, 1);
  f.Gone(ProcessId{2});
  f.Gone(ProcessId{3});
  CHECK(f.ledger.counts().quarantined_blocks == 1);
  f.Gone(kProcess);
  CHECK(f.FreeBlocks() == 2);
}

TEST_CASE("Ledger leaves no claim where no process is alive when the session ends") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1, {.ttl = seconds(5)});
  const SessionId b = f.Open(2, {.process = {}, .ttl = seconds(5)});
  f.Alloc(a, 1);
  f.Alloc(b, 1);
  f.Gone(kProcess);
  CHECK(f.ledger.counts().held_blocks == 2);
  f.Pass(seconds(5));
  CHECK(f.FreeBlocks() == 2);
  CHECK(f.Take<SessionForgotten>().size() == 2);
}

TEST_CASE("Ledger's claims end claim_grace after the last process is gone") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/2);
  options.claim_grace = milliseconds(50);
  LedgerFixture f(options);
  const SessionId a = f.Open(1, {.ttl = seconds(3'600)});
  f.Alloc(a, 2);
  SECTION("gone after the session") {
    f.Detach(a);
    CHECK_FALSE(f.ledger.NextDeadline().has_value());
    f.Gone(kProcess);
    CHECK(f.ledger.NextDeadline() == f.now + milliseconds(50));
    f.Pass(milliseconds(49));
    CHECK(f.FreeBlocks() == 0);
    CHECK_FALSE(f.ledger.is_idle());
    f.Pass(milliseconds(1));
  }
  SECTION("gone a little before the session") {
    f.Gone(kProcess);
    f.Pass(milliseconds(20));
    f.Detach(a);
    CHECK(f.ledger.counts().quarantined_blocks == 2);
    f.Pass(milliseconds(30));
  }
  SECTION("gone long before the session") {
    f.Gone(kProcess);
    f.Pass(milliseconds(50));
    f.Detach(a);
  }
  SECTION("closed within the grace") {
    f.Detach(a);
    f.Gone(kProcess);
    REQUIRE(f.Close(a).ok());
  }
  CHECK(f.FreeBlocks() == 2);
  CHECK(f.ledger.is_idle());
  CHECK_FALSE(f.ledger.NextDeadline().has_value());
}

TEST_CASE("Ledger's operator ends a session, and its claims where they say so") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  f.Alloc(a, 2);
  SECTION("as if its stream had broken") {
    REQUIRE(f.Terminate(a, /*release_claims=*/false).ok());
    CHECK(f.Take<SessionEnded>().front().reason == SessionEnd::kTerminated);
    CHECK(f.ledger.counts().quarantined_blocks == 2);
    REQUIRE(f.Terminate(a, false).ok());
    CHECK(f.ledger.counts().quarantined_blocks == 2);
    REQUIRE(f.Terminate(a, true).ok());
  }
  SECTION("with its claims") {
    REQUIRE(f.Terminate(a, /*release_claims=*/true).ok());
    CHECK(f.Take<SessionEnded>().front().reason == SessionEnd::kTerminated);
  }
  CHECK(f.FreeBlocks() == 2);
  CHECK(f.ledger.is_idle());
  CheckUnknown(f.Terminate(a, true));
}

TEST_CASE("Ledger drops a large session's references in slices") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/10);
  options.limits.reclaim_slice = 4;
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 10);
  REQUIRE(f.IncRef(a, blocks).ok());
  REQUIRE(f.Close(a).ok());
  CheckUnknown(f.Close(a));
  CHECK(f.FreeBlocks() == 4);
  CHECK(f.ledger.GetSession(a, 9)->state == SessionState::kClosing);
  CHECK(f.ledger.GetSession(a, 9)->held_blocks == 6);
  CHECK(f.Take<SessionForgotten>().empty());
  CHECK(f.ledger.Reclaim(5, f.now));
  CHECK(f.FreeBlocks() == 9);
  CHECK_FALSE(f.ledger.Reclaim(5, f.now));
  CHECK(f.FreeBlocks() == 10);
  CHECK(f.Take<SessionForgotten>().size() == 1);
}

TEST_CASE("Ledger makes and ends claims in slices too") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/10);
  options.limits.reclaim_slice = 4;
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  f.Alloc(a, 10);
  f.Detach(a);
  CHECK(f.ledger.counts().quarantined_blocks == 4);
  CHECK(f.ledger.counts().held_blocks == 6);
  CHECK(f.ledger.GetSession(a, 0)->state == SessionState::kClosing);
  CHECK_FALSE(f.ledger.Reclaim(100, f.now));
  CHECK(f.ledger.GetSession(a, 0)->state == SessionState::kClaiming);
  f.Gone(kProcess);
  CHECK(f.FreeBlocks() == 4);
  CHECK(f.ledger.is_idle());
  CHECK_FALSE(f.ledger.Reclaim(6, f.now));
  CHECK(f.FreeBlocks() == 10);
}

TEST_CASE("Ledger's Alloc short of room reclaims by itself before it fails or waits") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/100);
  options.limits.reclaim_slice = 4;
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  f.Alloc(a, 100);
  REQUIRE(f.Close(a).ok());
  REQUIRE(f.FreeBlocks() == 4);
  SECTION("all or nothing") {
    CHECK(f.Alloc(b, 50).size() == 50);
    CHECK(f.FreeBlocks() + f.ledger.counts().held_blocks == 100);
  }
  SECTION("partial") {
    CHECK(f.AllocNow(b, {.count = 100, .allow_partial = true}).blocks.size() == 100);
  }
  SECTION("waiting") {
    CHECK(f.AllocNow(b, {.count = 100, .wait = seconds(1)}).blocks.size() == 100);
  }
  SECTION("for a guarantee") { f.Open(3, {.guaranteed_blocks = 60}); }
}

TEST_CASE("Ledger's Alloc that reclaims goes before those who wait behind it") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/10);
  options.limits.reclaim_slice = 2;
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  f.Alloc(a, 10);
  const PendingId admit = f.AllocLater(b, {.count = 3, .queue = WaitQueue::kAdmit});
  REQUIRE(f.Close(a).ok());
  CHECK(f.Alloc(b, 9).size() == 9);
  CHECK(f.Take<AllocDone>().empty());
  CHECK(f.ledger.Cancel(admit, f.now));
}

TEST_CASE("Ledger's Alloc short of its quota reclaims by itself") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/100);
  options.max_blocks_per_tenant = 50;
  options.limits.reclaim_slice = 4;
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  f.Alloc(a, 50);
  REQUIRE(f.Close(a).ok());
  CHECK(f.Alloc(f.Open(2), 50).size() == 50);
}

TEST_CASE("Ledger serves those who wait with what is reclaimed") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/10);
  options.limits.reclaim_slice = 2;
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  f.Alloc(a, 10);
  const PendingId id = f.AllocLater(b, {.count = 6});
  REQUIRE(f.Close(a).ok());
  CHECK(f.Take<AllocDone>().empty());
  CHECK(f.ledger.Reclaim(4, f.now));
  CHECK(f.TakeAnswer(id).ok());
}

TEST_CASE("Ledger forgets tenants and sessions that leave nothing") {
  LedgerFixture f(/*num_blocks=*/1);
  for (int round = 0; round < 1'000; ++round) {
    const SessionId a = f.Open(static_cast<uint8_t>(round), {.process = {}});
    f.Alloc(a, 1);
    f.Detach(a);
  }
  CHECK(f.ledger.ListSessions().empty());
  CHECK(f.FreeBlocks() == 1);
}

TEST_CASE("Ledger's blocks are claimed from a session's end on, though it goes in slices") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/10);
  options.limits.reclaim_slice = 2;
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(a, 8);
  REQUIRE(f.IncRef(b, blocks).ok());
  f.Detach(a);
  for (const BlockRef& block : blocks) {
    CHECK(f.ledger.GetBlock(block.block).claimed);
    CheckError(f.TryPin(b, {}, {block}).status(), absl::StatusCode::kFailedPrecondition,
               Reason::kClaimed);
  }
  REQUIRE(f.Close(a).ok());
  CHECK_FALSE(f.ledger.GetBlock(blocks[0].block).claimed);
}

}  // namespace
}  // namespace kvpool::test
