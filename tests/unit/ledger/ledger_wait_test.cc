#include "tests/unit/ledger/ledger_fixture.h"

namespace kvpool::test {
namespace {

TEST_CASE("Ledger serves a waiting Alloc when room comes") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(a, 4);
  const PendingId id = f.AllocLater(b, {.count = 2});
  CHECK(f.ledger.counts().waiting_calls == 1);
  f.Drop(a, {blocks[0]});
  CHECK(f.Take<AllocDone>().empty());
  f.Drop(a, {blocks[1]});
  const auto answer = f.TakeAnswer(id);
  REQUIRE(answer.ok());
  CHECK(IndicesOf(answer->blocks) == std::vector<uint32_t>{1, 0});
  CHECK(answer->available == 0);
  CHECK(f.ledger.counts().waiting_calls == 0);
}

TEST_CASE("Ledger answers a waiting Alloc with POOL_FULL when its wait ends") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1);
  f.Alloc(a, 3);
  const PendingId id = f.AllocLater(a, {.count = 2, .wait = milliseconds(50)});
  CHECK(f.ledger.NextDeadline() == f.now + milliseconds(50));
  f.Pass(milliseconds(49));
  CHECK(f.Take<AllocDone>().empty());
  f.Pass(milliseconds(1));
  CheckFull(f.TakeAnswer(id).status(), 1);
  CHECK(f.FreeBlocks() == 1);
}

TEST_CASE("Ledger cuts a wait to max_wait, and takes a wait of 0 as none") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/1);
  options.limits.max_wait = seconds(3);
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  f.Alloc(a, 1);
  CheckFull(f.TryAlloc(a, {.count = 1, .wait = Duration::zero()}).status(), 0);
  const PendingId id = f.AllocLater(a, {.count = 1, .wait = seconds(3'600)});
  f.Pass(seconds(3));
  CheckFull(f.TakeAnswer(id).status(), 0);
}

TEST_CASE("Ledger serves an Alloc at once that could wait but need not") {
  LedgerFixture f(/*num_blocks=*/2);
  CHECK(f.AllocNow(f.Open(1), {.count = 2, .wait = seconds(1)}).blocks.size() == 2);
}

// Field case 21.
TEST_CASE("Ledger gives a cancelled Alloc nothing, and says so no more") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(a, 4);
  const PendingId id = f.AllocLater(b, {.count = 4, .wait = seconds(10)});
  f.Pass(milliseconds(50));
  CHECK(f.ledger.Cancel(id, f.now));
  CHECK_FALSE(f.ledger.Cancel(id, f.now));
  f.Drop(a, blocks);
  CHECK(f.FreeBlocks() == 4);
  CHECK(f.Take<AllocDone>().empty());
}

TEST_CASE("Ledger does not cancel what it has served") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 1);
  const PendingId id = f.AllocLater(a, {.count = 1});
  f.Drop(a, blocks);
  CHECK_FALSE(f.ledger.Cancel(id, f.now));
  CHECK(f.TakeAnswer(id).ok());
}

TEST_CASE("Ledger serves those behind when the first in line is cancelled or ends") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1);
  f.Alloc(a, 2);
  const PendingId big = f.AllocLater(a, {.count = 3});
  const PendingId small = f.AllocLater(a, {.count = 1, .wait = seconds(9)});
  SECTION("cancelled") {
    CHECK(f.ledger.Cancel(big, f.now));
    CHECK(f.TakeAnswer(small).ok());
  }
  SECTION("its wait over") {
    f.Pass(seconds(1));
    const auto done = f.Take<AllocDone>();
    REQUIRE(done.size() == 2);
    CheckFull(done[0].result.status(), 2);
    CHECK(done[1].id == small);
    CHECK(done[1].result.ok());
  }
}

// Field case 77.
TEST_CASE("Ledger lets nobody overtake the first in line, who asks for more than there is") {
  LedgerFixture f(/*num_blocks=*/7);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  f.Alloc(a, 5);
  const PendingId first = f.AllocLater(a, {.count = 5});
  CheckFull(f.TryAlloc(b, {.count = 1}).status(), 0);
  CHECK(f.AllocNow(b, {.count = 1, .allow_partial = true}).blocks.empty());
  CHECK(f.AllocNow(b, {.count = 0}).available == 0);
  const PendingId second = f.AllocLater(b, {.count = 1, .wait = seconds(2)});
  CHECK(f.Take<AllocDone>().empty());
  // The first one's deadline bounds the second one's wait.
  f.Pass(seconds(1));
  const auto done = f.Take<AllocDone>();
  REQUIRE(done.size() == 2);
  CHECK(done[0].id == first);
  CHECK(done[1].id == second);
  CHECK(done[1].result.ok());
}

// Field case 75.
TEST_CASE("Ledger preempts nobody: two that wait for each other end by their deadlines") {
  LedgerFixture f(/*num_blocks=*/10);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto held = f.Alloc(a, 6);
  f.Alloc(b, 4);
  const PendingId of_a = f.AllocLater(a, {.count = 4});
  const PendingId of_b = f.AllocLater(b, {.count = 6});
  REQUIRE(f.IncRef(a, held).ok());  // Others' calls are served meanwhile.
  f.Pass(seconds(1));
  const auto done = f.Take<AllocDone>();
  REQUIRE(done.size() == 2);
  CHECK(done[0].id == of_a);
  CheckFull(done[0].result.status(), 0);
  CHECK(done[1].id == of_b);
  CheckFull(done[1].result.status(), 0);
}

TEST_CASE("Ledger serves everybody in kGrow before anybody in kAdmit") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 2);
  const PendingId admit = f.AllocLater(a, {.count = 1, .queue = WaitQueue::kAdmit});
  const PendingId grow = f.AllocLater(a, {.count = 1});
  f.Drop(a, {blocks[0]});
  CHECK(f.TakeAnswer(grow).ok());
  f.Drop(a, {blocks[1]});
  CHECK(f.TakeAnswer(admit).ok());
}

TEST_CASE("Ledger serves a growing sequence at once though others wait to be admitted") {
  LedgerFixture f(/*num_blocks=*/3);
  const SessionId a = f.Open(1);
  f.Alloc(a, 2);
  f.AllocLater(a, {.count = 2, .queue = WaitQueue::kAdmit});
  CheckFull(f.TryAlloc(a, {.count = 1, .queue = WaitQueue::kAdmit}).status(), 0);
  CHECK(f.AllocNow(a, {.count = 0}).available == 1);
  CHECK(f.Alloc(a, 1).size() == 1);
}

TEST_CASE("Ledger drops what a waiting Alloc releases only when it is served") {
  LedgerFixture f(/*num_blocks=*/3);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto of_a = f.Alloc(a, 1);
  const auto of_b = f.Alloc(b, 2);
  const PendingId id = f.AllocLater(a, {.count = 2, .release = of_a});
  CHECK(f.RefCountOf(of_a[0]) == 1);
  f.Drop(b, {of_b[0]});
  const auto answer = f.TakeAnswer(id);
  REQUIRE(answer.ok());
  CHECK(IndicesOf(answer->blocks) == std::vector<uint32_t>{0, 1});
  CHECK(answer->blocks[0].generation == Generation{2});
}

TEST_CASE("Ledger ends a waiting Alloc, once first, that releases what is not held any more") {
  LedgerFixture f(/*num_blocks=*/3);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto of_a = f.Alloc(a, 2);
  f.Alloc(b, 1);
  const PendingId id = f.AllocLater(a, {.count = 3, .release = {of_a[0]}});
  f.Drop(a, {of_a[0]});
  CheckEntryError(f.TakeAnswer(id).status(), absl::StatusCode::kFailedPrecondition,
                  Reason::kNotHeld, 0, of_a[0].block);
}

TEST_CASE("Ledger serves a waiting Alloc when what it releases would free more than before") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(a, 1);
  REQUIRE(f.IncRef(b, blocks).ok());
  f.Alloc(b, 1);
  const PendingId id = f.AllocLater(a, {.count = 1, .release = blocks});
  // Nothing is free by this, but a's release would free the block now.
  f.Drop(b, blocks);
  CHECK(f.TakeAnswer(id).ok());
}

TEST_CASE("Ledger lets no Alloc pass those who wait by releasing as much as it takes") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(a, 1);
  f.Alloc(b, 1);
  const PendingId first = f.AllocLater(b, {.count = 1});
  CheckFull(f.TryAlloc(a, {.count = 1, .release = blocks}).status(), 0);
  CHECK(f.RefCountOf(blocks[0]) == 1);
  // Taking nothing, it passes; what it gives up is for the one who waits.
  CHECK(f.AllocNow(a, {.count = 0, .release = blocks}).available == 0);
  CHECK(f.TakeAnswer(first).ok());
}

TEST_CASE("Ledger ends a waiting Alloc with QUOTA if its turn finds its tenant at the quota") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/4);
  options.max_blocks_per_tenant = 3;
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  const SessionId other = f.Open(2, {.tenant = "other"});
  const auto blocks = f.Alloc(a, 2);
  REQUIRE(f.ledger.Alloc({.caller = {other, "other"}, .count = 2}, f.now).ok());
  const PendingId first = f.AllocLater(a, {.count = 1});
  f.AllocLater(a, {.count = 1});
  const PendingId third = f.AllocLater(a, {.count = 2, .release = {blocks[1]}});
  REQUIRE(f.IncRef(a, {blocks[1]}).ok());
  f.Drop(a, {blocks[0]});
  CHECK(f.TakeAnswer(first).ok());
  // The second one fills the quota; of what the third one releases, nothing would come free.
  REQUIRE(f.ledger.CloseSession({other, "other"}, f.now).ok());
  CheckError(f.TakeAnswer(third).status(), absl::StatusCode::kResourceExhausted, Reason::kQuota);
  CHECK(f.ledger.GetSession(a, 0)->held_blocks == 3);  // The second one's is being filled.
}

TEST_CASE("Ledger lets at most max_waiting_calls wait") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/1);
  options.limits.max_waiting_calls = 2;
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  f.Alloc(a, 1);
  f.AllocLater(a, {.count = 1});
  f.AllocLater(a, {.count = 1});
  CheckError(f.TryAlloc(a, {.count = 1, .wait = seconds(1)}).status(),
             absl::StatusCode::kResourceExhausted, Reason::kLimit);
  CheckFull(f.TryAlloc(a, {.count = 1}).status(), 0);
}

TEST_CASE("Ledger lets calls wait that release at most max_named_blocks together") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/3);
  options.limits.max_named_blocks = 3;
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(a, 3);
  REQUIRE(f.IncRef(b, blocks).ok());
  const PendingId id = f.AllocLater(a, {.count = 1, .release = {blocks[0], blocks[1]}});
  CheckError(
      f.TryAlloc(a, {.count = 1, .wait = seconds(1), .release = {blocks[0], blocks[2]}}).status(),
      absl::StatusCode::kResourceExhausted, Reason::kLimit);
  f.AllocLater(a, {.count = 1, .release = {blocks[2]}});
  REQUIRE(f.ledger.Cancel(id, f.now));
  f.AllocLater(a, {.count = 1, .release = {blocks[0], blocks[2]}});
}

TEST_CASE("Ledger lets no session expire while a call of it waits") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1, {.ttl = seconds(1)});
  const SessionId b = f.Open(2, {.ttl = seconds(60)});
  f.Alloc(b, 1);
  const PendingId id = f.AllocLater(a, {.count = 1, .wait = seconds(5)});
  f.Pass(seconds(5));
  CheckFull(f.TakeAnswer(id).status(), 0);
  CHECK(f.ledger.GetSession(a, 0)->state == SessionState::kUnattached);
  f.Pass(seconds(1));
  CheckUnknown(f.TryAlloc(a, {}).status());
}

TEST_CASE("Ledger answers the waiting calls of a session that ends with SESSION_UNKNOWN") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(b, 1);
  const PendingId first = f.AllocLater(a, {.count = 1});
  const PendingId second = f.AllocLater(a, {.count = 1});
  REQUIRE(f.Close(a).ok());
  const auto done = f.Take<AllocDone>();
  REQUIRE(done.size() == 2);
  CHECK(done[0].id == first);
  CHECK(done[1].id == second);
  CheckUnknown(done[0].result.status());
  CheckUnknown(done[1].result.status());
  f.Drop(b, blocks);
  CHECK(f.FreeBlocks() == 1);
}

TEST_CASE("Ledger does what fell due in order, each before the call that comes later") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1, {.process = {}, .ttl = seconds(2)});
  const SessionId b = f.Open(2, {.ttl = seconds(60)});
  f.Alloc(a, 2);
  const PendingId early = f.AllocLater(b, {.count = 1, .wait = seconds(1)});
  const PendingId late = f.AllocLater(b, {.count = 1, .wait = seconds(3)});
  f.now += seconds(30);
  // a expired after the first one's wait and before the second one's.
  CHECK(f.AllocNow(b, {.count = 1}).blocks.size() == 1);
  const auto done = f.Take<AllocDone>();
  REQUIRE(done.size() == 2);
  CHECK(done[0].id == early);
  CheckFull(done[0].result.status(), 0);
  CHECK(done[1].id == late);
  CHECK(done[1].result.ok());
}

TEST_CASE("Ledger frees what falls due at one time before it serves those who wait") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1, {.process = {}, .ttl = seconds(2)});
  const SessionId b = f.Open(2, {.process = {}, .ttl = seconds(2)});
  const SessionId c = f.Open(3, {.ttl = seconds(60)});
  f.Alloc(a, 1);
  f.Alloc(b, 1);
  const PendingId id = f.AllocLater(c, {.count = 1, .wait = seconds(5)});
  f.Pass(seconds(2));
  const auto answer = f.TakeAnswer(id);
  REQUIRE(answer.status() == absl::OkStatus());
  CHECK(answer->available == 1);
}

TEST_CASE("Ledger's session without a process is nobody's, attached or not") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1, {.process = {}});
  REQUIRE(f.ledger.Attach(f.Of(a), ProcessId{}, f.now).ok());
  f.Gone(ProcessId{});
  CHECK(f.ledger.GetSession(a, 0)->state == SessionState::kAttached);
}

}  // namespace
}  // namespace kvpool::test
