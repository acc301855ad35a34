#include "tests/unit/ledger/ledger_fixture.h"

namespace kvpool::test {
namespace {

SessionEnd EndOf(LedgerFixture& f, const SessionId& session) {
  const auto ended = f.Take<SessionEnded>();
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].id == session);
  return ended[0].reason;
}

TEST_CASE("Ledger grants a ttl within its limits") {
  LedgerFixture f(/*num_blocks=*/1);
  CHECK(*f.TryOpen(1, {.ttl = Duration::zero()}) == seconds(1));
  CHECK(*f.TryOpen(2, {.ttl = seconds(10)}) == seconds(10));
  CHECK(*f.TryOpen(3, {.ttl = std::chrono::hours(5)}) == std::chrono::hours(1));
}

TEST_CASE("Ledger's unattached session expires when no call has run for its ttl") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1, {.process = {}, .ttl = seconds(10)});
  CHECK(f.ledger.NextDeadline() == f.now + seconds(10));
  f.Alloc(a, 1);
  f.Pass(seconds(9));
  CHECK(f.AllocNow(a, {}).available == 1);
  f.Pass(seconds(9));
  // A call that fails is a call all the same.
  CheckFull(f.TryAlloc(a, {.count = 2}).status(), 1);
  f.Pass(seconds(9));
  CHECK(f.Take<SessionEnded>().empty());
  f.Pass(seconds(1));
  CHECK(EndOf(f, a) == SessionEnd::kExpired);
  CHECK(f.FreeBlocks() == 2);
  CheckUnknown(f.DecRef(a, {}).status());
  CHECK_FALSE(f.ledger.NextDeadline().has_value());
}

TEST_CASE("Ledger's every call keeps an unattached session alive, but for looking") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1, {.ttl = seconds(10)});
  const auto expires_in = [&] { return *f.ledger.NextDeadline() - f.now; };
  f.Pass(seconds(1));
  CHECK(f.ledger.CheckHeld(f.Of(a), {}).ok());
  CHECK(f.ledger.GetSession(a, 0).ok());
  CHECK(expires_in() == seconds(9));
  REQUIRE(f.IncRef(a, {}).ok());
  CHECK(expires_in() == seconds(10));
  f.Pass(seconds(1));
  REQUIRE(f.DecRef(a, {}).ok());
  CHECK(expires_in() == seconds(10));
  f.Pass(seconds(1));
  REQUIRE(f.ledger.AddProcess(f.Of(a), ProcessId{5}, f.now).ok());
  CHECK(expires_in() == seconds(10));
}

TEST_CASE("Ledger's running call keeps its session alive until it ends") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1, {.ttl = seconds(10)});
  REQUIRE(f.ledger.BeginCall(f.Of(a), f.now).ok());
  REQUIRE(f.ledger.BeginCall(f.Of(a), f.now).ok());
  CHECK_FALSE(f.ledger.NextDeadline().has_value());
  f.Pass(seconds(100));
  f.ledger.EndCall(a, f.now);
  CHECK_FALSE(f.ledger.NextDeadline().has_value());
  f.Pass(seconds(100));
  f.ledger.EndCall(a, f.now);
  CHECK(f.ledger.NextDeadline() == f.now + seconds(10));
  f.Pass(seconds(10));
  CHECK(EndOf(f, a) == SessionEnd::kExpired);
  f.ledger.EndCall(a, f.now);  // Of an ended session: nothing.
}

TEST_CASE("Ledger's attached session lives as long as its stream") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1, {.ttl = seconds(10)});
  REQUIRE(f.ledger.Attach(f.Of(a), ProcessId{2}, f.now).ok());
  CHECK_FALSE(f.ledger.NextDeadline().has_value());
  CHECK(f.ledger.GetSession(a, 0)->state == SessionState::kAttached);
  CHECK(f.ledger.GetSession(a, 0)->processes == std::vector<ProcessId>{ProcessId{2}, kProcess});
  f.Pass(std::chrono::hours(100));
  f.Detach(a);
  CHECK(EndOf(f, a) == SessionEnd::kDetached);
  f.Detach(a);
  CHECK(f.Take<SessionEnded>().empty());
}

TEST_CASE("Ledger attaches a session to one stream at a time") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  REQUIRE(f.ledger.Attach(f.Of(a), kProcess, f.now).ok());
  CheckError(f.ledger.Attach(f.Of(a), kProcess, f.now), absl::StatusCode::kFailedPrecondition,
             Reason::kAttached);
}

TEST_CASE("Ledger ends the sessions attached to a process that is gone, and no others") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId attached = f.Open(1);
  const SessionId elsewhere = f.Open(2);
  const SessionId unattached = f.Open(3);
  REQUIRE(f.ledger.Attach(f.Of(attached), kProcess, f.now).ok());
  REQUIRE(f.ledger.Attach(f.Of(elsewhere), ProcessId{8}, f.now).ok());
  f.Gone(kProcess);
  CHECK(EndOf(f, attached) == SessionEnd::kProcessGone);
  CHECK(f.ledger.GetSession(elsewhere, 0)->processes == std::vector<ProcessId>{ProcessId{8}});
  CHECK(f.ledger.GetSession(unattached, 0)->state == SessionState::kUnattached);
  f.Gone(ProcessId{99});
  CHECK(f.Take<SessionEnded>().empty());
}

// Field case 27.
TEST_CASE("Ledger closes a session once; closing it again finds nothing") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1);
  f.Alloc(a, 3);
  REQUIRE(f.Close(a).ok());
  CHECK(EndOf(f, a) == SessionEnd::kClosed);
  CHECK(f.FreeBlocks() == 4);
  CheckUnknown(f.Close(a));
  CheckUnknown(f.Terminate(a, false));
  CheckUnknown(f.ledger.GetSession(a, 0).status());
  CHECK(f.ledger.ListSessions().empty());
}

// Field case 11: the pool's mutex makes one of the two come first.
TEST_CASE("Ledger frees each block once whichever of DecRef and the session's end is first") {
  LedgerFixture f(/*num_blocks=*/100);
  const SessionId a = f.Open(1, {.process = {}});
  const auto blocks = f.Alloc(a, 100);
  SECTION("DecRef") {
    f.Drop(a, blocks);
    f.Detach(a);
  }
  SECTION("the end") {
    f.Detach(a);
    CheckUnknown(f.DecRef(a, blocks).status());
  }
  CHECK(f.FreeBlocks() == 100);
}

TEST_CASE("Ledger gives the first blocks of a session that ended out first") {
  LedgerFixture f(/*num_blocks=*/3);
  const SessionId a = f.Open(1);
  f.Alloc(a, 3);
  REQUIRE(f.Close(a).ok());
  CHECK(IndicesOf(f.Alloc(f.Open(2), 3)) == std::vector<uint32_t>{0, 1, 2});
}

TEST_CASE("Ledger tells when nothing is left of a session, after it has ended") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1);
  f.ledger.TakeEvents();
  REQUIRE(f.Close(a).ok());
  const auto events = f.ledger.TakeEvents();
  REQUIRE(events.size() == 2);
  CHECK(std::get<SessionEnded>(events[0]).id == a);
  CHECK(std::get<SessionForgotten>(events[1]).id == a);
}

TEST_CASE("Ledger opens at most max_sessions, ended ones that still claim included") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/1);
  options.limits.max_sessions = 2;
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  f.Open(2);
  CheckError(f.TryOpen(3).status(), absl::StatusCode::kResourceExhausted, Reason::kLimit);
  f.Detach(a);
  CheckError(f.TryOpen(3).status(), absl::StatusCode::kResourceExhausted, Reason::kLimit);
  REQUIRE(f.Close(a).ok());
  f.Open(3);
}

TEST_CASE("Ledger lets one process have max_process_sessions; others open theirs") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/1);
  options.limits.max_process_sessions = 2;
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  f.Open(2);
  CheckError(f.TryOpen(3).status(), absl::StatusCode::kResourceExhausted, Reason::kLimit);
  f.Open(3, {.process = ProcessId{static_cast<uint64_t>(kProcess) + 1}});
  REQUIRE(f.Close(a).ok());
  f.Open(4);
}

// Field cases 96 and 100.
TEST_CASE("Ledger tells two sessions apart that say the same of themselves") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto of_a = f.Alloc(a, 1);
  const auto of_b = f.Alloc(b, 1);
  f.Gone(kProcess);
  f.Detach(a);
  CHECK(f.StateOf(of_b[0]) == BlockState::kHeld);
  // What the dead one's late call names is not the new one's.
  const SessionId again = f.Open(3);
  const auto blocks = f.Alloc(again, 1);
  CHECK(blocks[0].block == of_a[0].block);
  CheckUnknown(f.DecRef(a, of_a).status());
  CheckError(f.DecRef(again, of_a).status(), absl::StatusCode::kFailedPrecondition,
             Reason::kStaleBlock);
  CHECK(f.ledger.GetSession(again, 9)->references == 1);
}

TEST_CASE("Ledger lists sessions in the order in which they were opened") {
  LedgerFixture f(/*num_blocks=*/4);
  f.Open(9);
  const SessionId second = f.Open(3);
  f.Open(5, {.tenant = "other", .model_id = "llama"});
  REQUIRE(f.Close(second).ok());
  f.Open(1);
  const auto sessions = f.ledger.ListSessions();
  REQUIRE(sessions.size() == 3);
  CHECK(sessions[0].id == IdOf(9));
  CHECK(sessions[1].id == IdOf(5));
  CHECK(sessions[1].tenant == "other");
  CHECK(sessions[1].model_id == "llama");
  CHECK(sessions[2].id == IdOf(1));
  CHECK(sessions[2].open_time == f.now);
  CHECK(f.ledger.counts().sessions == 3);
}

TEST_CASE("Ledger names a session's lowest blocks, ascending, and says what it leaves out") {
  LedgerFixture f(/*num_blocks=*/5);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 5);
  REQUIRE(f.IncRef(a, {blocks[3]}).ok());
  f.Drop(a, {blocks[1]});
  const auto all = f.ledger.GetSession(a, 4);
  REQUIRE(all.ok());
  CHECK(all->blocks == std::vector<BlockId>{BlockId{0}, BlockId{2}, BlockId{3}, BlockId{4}});
  CHECK_FALSE(all->truncated);
  CHECK(all->held_blocks == 4);
  CHECK(all->references == 5);
  const auto some = f.ledger.GetSession(a, 2);
  CHECK(some->blocks == std::vector<BlockId>{BlockId{0}, BlockId{2}});
  CHECK(some->truncated);
}

TEST_CASE("Ledger tells of a block who holds it, oldest session first") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(7);
  const SessionId b = f.Open(2);
  CHECK(f.ledger.GetBlock(BlockId{1}).state == BlockState::kFree);
  CHECK(f.ledger.GetBlock(BlockId{1}).generation == Generation{});
  const auto blocks = f.Alloc(b, 1);
  REQUIRE(f.IncRef(a, {blocks[0], blocks[0]}).ok());
  const BlockInfo info = f.ledger.GetBlock(blocks[0].block);
  CHECK(info.state == BlockState::kHeld);
  CHECK(info.ref_count == 3);
  CHECK(info.tenant == "acme");
  CHECK_FALSE(info.claimed);
  CHECK_FALSE(info.sealed);
  CHECK_FALSE(info.published);
  REQUIRE(info.holders.size() == 2);
  CHECK(info.holders[0].session == a);
  CHECK(info.holders[0].references == 2);
  CHECK(info.holders[0].client_name == "worker");
  CHECK(info.holders[1].session == b);
  CHECK(info.history.empty());
  f.Drop(b, blocks);
  f.Drop(a, {blocks[0], blocks[0]});
  CHECK(f.ledger.GetBlock(blocks[0].block).tenant == "acme");
}

TEST_CASE("Ledger's trace tells what happened to a block and by whom, refused calls left out") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/2);
  options.trace = true;
  LedgerFixture f(options);
  const SessionId a = f.Open(0xA1);
  const SessionId b = f.Open(0xB2, {.process = ProcessId{2}});
  const auto blocks = f.Alloc(a, 1);
  REQUIRE(f.IncRef(b, blocks).ok());
  CHECK_FALSE(f.IncRef(b, {{blocks[0].block, Generation{9}}}).ok());
  f.Drop(a, blocks);
  CHECK_FALSE(f.DecRef(a, blocks).ok());
  f.Detach(b);
  f.Gone(ProcessId{2});
  CHECK(f.ledger.TraceLine(blocks[0].block) ==
        "alloc->1 @Alloc:a1a1a1a1 | inc->2 @IncRef:b2b2b2b2 | dec->1 @DecRef:a1a1a1a1 | "
        "release->0 @detached:b2b2b2b2 | quarantine->0 @detached:b2b2b2b2 | "
        "free->0 @claim ended:b2b2b2b2");
  const auto history = f.ledger.GetBlock(blocks[0].block).history;
  REQUIRE(history.size() == 6);
  CHECK(history[2].operation == TraceOperation::kDec);
  CHECK(history[2].time == f.now);
  CHECK(f.ledger.TraceLine(BlockId{1}).empty());
}

TEST_CASE("Ledger's trace tells of a quarantine and of its end, once each, and of no others") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/2);
  options.trace = true;
  LedgerFixture f(options);
  const SessionId a = f.Open(0xA1, {.process = ProcessId{1}});
  const SessionId b = f.Open(0xB2, {.process = ProcessId{2}});
  const auto blocks = f.Alloc(a, 2);
  REQUIRE(f.IncRef(b, {blocks[0]}).ok());
  f.Drop(a, {blocks[1]});
  f.Detach(a);
  f.Detach(b);
  f.Gone(ProcessId{1});
  f.Gone(ProcessId{2});
  CHECK(f.ledger.TraceLine(blocks[0].block) ==
        "alloc->1 @Alloc:a1a1a1a1 | inc->2 @IncRef:b2b2b2b2 | release->1 @detached:a1a1a1a1 | "
        "release->0 @detached:b2b2b2b2 | quarantine->0 @detached:b2b2b2b2 | "
        "free->0 @claim ended:b2b2b2b2");
  CHECK(f.ledger.TraceLine(blocks[1].block) ==
        "alloc->1 @Alloc:a1a1a1a1 | dec->0 @DecRef:a1a1a1a1");
}

TEST_CASE("Ledger's trace names the reason of a session's end") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/1);
  options.trace = true;
  LedgerFixture f(options);
  const SessionId a = f.Open(1, {.process = {}, .ttl = seconds(5)});
  f.Alloc(a, 1);
  SECTION("closed") {
    REQUIRE(f.Close(a).ok());
    CHECK(f.ledger.GetBlock(BlockId{0}).history.back().caller == "CloseSession:01010101");
  }
  SECTION("expired") {
    f.Pass(seconds(5));
    CHECK(f.ledger.GetBlock(BlockId{0}).history.back().caller == "expired:01010101");
  }
  SECTION("terminated") {
    REQUIRE(f.Terminate(a, false).ok());
    CHECK(f.ledger.GetBlock(BlockId{0}).history.back().caller == "TerminateSession:01010101");
  }
  SECTION("process gone") {
    REQUIRE(f.ledger.Attach(f.Of(a), kProcess, f.now).ok());
    f.Gone(kProcess);
    CHECK(f.ledger.GetBlock(BlockId{0}).history.back().caller == "process gone:01010101");
  }
  CHECK(f.ledger.GetBlock(BlockId{0}).history.back().operation == TraceOperation::kRelease);
}

TEST_CASE("Ledger without tracing says how to have it") {
  LedgerFixture f(/*num_blocks=*/1);
  CHECK(f.ledger.TraceLine(BlockId{0}) == "set KVPOOL_KV_TRACE=1 to have the block's history");
}

}  // namespace
}  // namespace kvpool::test
