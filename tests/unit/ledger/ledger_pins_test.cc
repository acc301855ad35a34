#include "tests/unit/ledger/ledger_fixture.h"

namespace kvpool::test {
namespace {

void CheckGranted(LedgerFixture& f, const std::vector<PendingId>& ids) {
  const auto done = f.Take<PinDone>();
  REQUIRE(done.size() == ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    CHECK(done[i].id == ids[i]);
    CHECK(done[i].status == absl::OkStatus());
  }
}

TEST_CASE("Ledger pins for reads together, and for a write alone") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 2);
  const PendingId read_1 = f.Pin(a, {blocks[0]}, {}, true);
  const PendingId read_2 = f.Pin(a, blocks, {}, true);
  const PendingId write = f.Pin(a, {}, {blocks[0]}, false);
  const PendingId read_3 = f.Pin(a, {blocks[0]}, {}, false);  // It does not overtake the write.
  f.Unpin(read_1);
  CheckGranted(f, {});
  f.Unpin(read_2);
  CheckGranted(f, {write});
  f.Unpin(write);
  CheckGranted(f, {read_3});
  f.Unpin(read_3);
}

TEST_CASE("Ledger grants a pin all its blocks at once, and keeps no other out meanwhile") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 2);
  const PendingId first = f.Pin(a, {}, {blocks[0]}, true);
  const PendingId both = f.Pin(a, {blocks[1]}, {blocks[0]}, false);
  const PendingId read = f.Pin(a, {blocks[1]}, {}, true);
  f.Unpin(first);
  CheckGranted(f, {both});
  f.Unpin(both);
  f.Unpin(read);
}

TEST_CASE("Ledger takes a block named more than once, or in both lists, as one pin") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 1);
  const PendingId id =
      f.Pin(a, {blocks[0], blocks[0]}, {blocks[0], WithoutGenerations(blocks)[0]}, true);
  const PendingId read = f.Pin(a, blocks, {}, false);
  f.Unpin(id);
  CheckGranted(f, {read});
}

TEST_CASE("Ledger pins only what the session holds, as it means it") {
  LedgerFixture f(/*num_blocks=*/3);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 2);
  const BlockRef other = f.Alloc(f.Open(2), 1).front();
  const BlockRef stale = {blocks[1].block, Generation{8}};
  const auto failed = absl::StatusCode::kFailedPrecondition;
  CheckEntryError(f.TryPin(a, {blocks[0], other}, {}).status(), failed, Reason::kNotHeld, 1,
                  other.block);
  CheckEntryError(f.TryPin(a, {}, {blocks[0], other}).status(), failed, Reason::kNotHeld, 1,
                  other.block);
  CheckEntryError(f.TryPin(a, {stale}, {other}).status(), failed, Reason::kStaleBlock, 0,
                  stale.block);
  CheckEntryError(f.TryPin(a, {blocks[0]}, {stale}).status(), failed, Reason::kStaleBlock, 0,
                  stale.block);
  CheckEntryError(f.ledger.CheckHeld(f.Of(a), std::vector<BlockRef>{blocks[0], other}), failed,
                  Reason::kNotHeld, 1, other.block);
  CheckEntryError(f.ledger.CheckHeld(f.Of(a), std::vector<BlockRef>{stale}), failed,
                  Reason::kStaleBlock, 0, stale.block);
  CHECK(f.ledger.CheckHeld(f.Of(a), blocks).ok());
}

TEST_CASE("Ledger pins no claimed block for writing, but for reading") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2, {.process = ProcessId{2}});
  const auto blocks = f.Alloc(a, 1);
  REQUIRE(f.IncRef(b, blocks).ok());
  f.Detach(b);
  CheckEntryError(f.TryPin(a, {}, blocks).status(), absl::StatusCode::kFailedPrecondition,
                  Reason::kClaimed, 0, blocks[0].block);
  f.Unpin(f.Pin(a, blocks, {}, true));
}

TEST_CASE("Ledger pins for writing what another session of the tenant holds") {
  LedgerFixture f(/*num_blocks=*/3);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto of_a = f.Alloc(a, 1);
  const auto of_b = f.Alloc(b, 1);
  const auto pin = [&](const SessionId& writer) {
    return f.ledger.Pin({.caller = f.Of(a), .reads = of_a, .writes = of_b, .write_session = writer},
                        f.now);
  };
  CHECK(pin(b)->granted);
  CheckError(pin(a).status(), absl::StatusCode::kFailedPrecondition, Reason::kNotHeld);
  CheckUnknown(pin(IdOf(9)).status());
  f.Open(3, {.tenant = "other"});
  CHECK(pin(IdOf(3)).status().code() == absl::StatusCode::kPermissionDenied);
  f.Join(4, b, kProcess);
  CheckError(pin(IdOf(4)).status(), absl::StatusCode::kFailedPrecondition, Reason::kJoined);
}

TEST_CASE("Ledger quarantines a pinned block that is let go until the pin ends") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(a, 1);
  const PendingId id = f.Pin(a, blocks, {}, true);
  SECTION("by DecRef") {
    const auto answer = f.DecRef(a, blocks);
    CHECK(answer->freed == 0);
  }
  SECTION("by CloseSession") { REQUIRE(f.Close(a).ok()); }
  CHECK(f.StateOf(blocks[0]) == BlockState::kQuarantined);
  CHECK_FALSE(f.ledger.GetBlock(blocks[0].block).claimed);
  CheckError(f.IncRef(b, blocks), absl::StatusCode::kFailedPrecondition, Reason::kNotLive);
  const PendingId waiting = f.AllocLater(b, {.count = 1});
  f.Unpin(id);
  CHECK(f.TakeAnswer(waiting).ok());
}

TEST_CASE("Ledger checks a pin that waited again when its turn comes") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 2);
  const PendingId first = f.Pin(a, {}, {blocks[0]}, true);
  const PendingId second = f.Pin(a, {}, {blocks[1], blocks[0]}, false);
  const PendingId third = f.Pin(a, {blocks[1]}, {}, false);
  f.Drop(a, {blocks[0]});
  SECTION("let go") {
    f.Unpin(first);
    const auto done = f.Take<PinDone>();
    REQUIRE(done.size() == 2);
    CHECK(done[0].id == second);
    CheckEntryError(done[0].status, absl::StatusCode::kFailedPrecondition, Reason::kNotHeld, 1,
                    blocks[0].block);
    CHECK(done[1].id == third);
    CHECK(done[1].status.ok());
  }
  SECTION("let go and taken again") {
    const PendingId wait = f.AllocLater(a, {.count = 1});
    f.Unpin(first);
    const auto done = f.Take<PinDone>();
    REQUIRE(done.size() == 2);
    CheckError(done[0].status, absl::StatusCode::kFailedPrecondition, Reason::kNotHeld);
    CHECK(wait != first);
  }
}

TEST_CASE("Ledger fails a pin whose block was let go and taken again by its session meanwhile") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 2);
  const PendingId first = f.Pin(a, {}, {blocks[1]}, true);
  const PendingId second = f.Pin(a, WithoutGenerations(blocks), {}, false);
  f.Drop(a, {blocks[0]});
  CHECK(f.Alloc(a, 1)[0].block == blocks[0].block);
  f.Unpin(first);
  const auto done = f.Take<PinDone>();
  REQUIRE(done.size() == 1);
  CHECK(done[0].id == second);
  CheckEntryError(done[0].status, absl::StatusCode::kFailedPrecondition, Reason::kStaleBlock, 0,
                  blocks[0].block);
}

TEST_CASE("Ledger's fill does not wait for a pin that waits on the block's former life") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 2);
  const PendingId first = f.Pin(a, {}, {blocks[1]}, true);
  f.Pin(a, {}, blocks, false);
  f.Drop(a, {blocks[0]});
  f.ledger.TakeEvents();
  const auto filling = f.TryAlloc(a, {.count = 1, .fill = Fill::kZero});
  REQUIRE(filling.ok());
  CHECK(f.Take<FillNeeded>().size() == 1);
  f.Unpin(first);
  CHECK(f.Take<PinDone>().empty());
  f.FillDone(filling->pending, absl::OkStatus());
  const auto done = f.Take<PinDone>();
  REQUIRE(done.size() == 1);
  CheckError(done[0].status, absl::StatusCode::kFailedPrecondition, Reason::kStaleBlock);
}

TEST_CASE("Ledger ends the waiting pins of a session that ends, and grants those behind") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(a, 1);
  REQUIRE(f.IncRef(b, blocks).ok());
  const PendingId read = f.Pin(b, blocks, {}, true);
  const PendingId write_1 = f.Pin(a, {}, blocks, false);
  const PendingId write_2 = f.Pin(a, {}, blocks, false);
  const PendingId behind = f.Pin(b, blocks, {}, false);
  REQUIRE(f.Close(a).ok());
  const auto done = f.Take<PinDone>();
  REQUIRE(done.size() == 3);
  CHECK(done[0].id == write_1);
  CheckUnknown(done[0].status);
  CHECK(done[1].id == write_2);
  CheckUnknown(done[1].status);
  CHECK(done[2].id == behind);
  CHECK(done[2].status.ok());
  f.Unpin(read);
  f.Unpin(behind);
}

TEST_CASE("Ledger fails a pin whose destination session ended when its turn comes") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto of_a = f.Alloc(a, 1);
  const auto of_b = f.Alloc(b, 1);
  const PendingId first = f.Pin(b, {}, of_b, true);
  const auto second =
      f.ledger.Pin({.caller = f.Of(a), .reads = of_a, .writes = of_b, .write_session = b}, f.now);
  REQUIRE(second.ok());
  REQUIRE(f.Close(b).ok());
  CHECK(f.Take<PinDone>().empty());
  f.Unpin(first);
  const auto done = f.Take<PinDone>();
  REQUIRE(done.size() == 1);
  CHECK(done[0].id == second->id);
  CheckUnknown(done[0].status);
}

TEST_CASE("Ledger cancels a waiting pin, and no granted one") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 1);
  const PendingId read = f.Pin(a, blocks, {}, true);
  const PendingId write = f.Pin(a, {}, blocks, false);
  const PendingId behind = f.Pin(a, blocks, {}, false);
  CHECK_FALSE(f.ledger.Cancel(read, f.now));
  CHECK(f.ledger.Cancel(write, f.now));
  CheckGranted(f, {behind});
  f.Unpin(read);
  f.Unpin(behind);
  CHECK_FALSE(f.ledger.Cancel(behind, f.now));
}

TEST_CASE("Ledger lets no session expire while it pins or waits to") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1, {.ttl = seconds(1)});
  const auto blocks = f.Alloc(a, 1);
  const PendingId granted = f.Pin(a, blocks, {}, true);
  const PendingId waiting = f.Pin(a, {}, blocks, false);
  f.Pass(seconds(9));
  f.Unpin(granted);
  f.Pass(seconds(9));
  CHECK(f.ledger.GetSession(a, 0)->state == SessionState::kUnattached);
  f.Unpin(waiting);
  CHECK(f.ledger.NextDeadline() == f.now + seconds(1));
}

}  // namespace
}  // namespace kvpool::test
