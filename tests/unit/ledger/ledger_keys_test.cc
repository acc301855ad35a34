#include "tests/unit/ledger/ledger_fixture.h"

namespace kvpool::test {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST_CASE("Ledger answers a keyed Alloc again as it did first, without a second effect") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1);
  const AllocAnswer first = f.AllocNow(a, {.count = 2, .key = 7});
  f.Alloc(a, 1);
  CHECK(f.AllocNow(a, {.count = 2, .key = 7}) == first);
  CHECK(f.FreeBlocks() == 1);
  CHECK(f.AllocNow(a, {.count = 1, .key = 8}).blocks.size() == 1);
}

TEST_CASE("Ledger answers keyed IncRef and DecRef again without doing them again") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 1);
  REQUIRE(f.IncRef(a, blocks, /*key=*/1).ok());
  REQUIRE(f.IncRef(a, blocks, /*key=*/1).ok());
  CHECK(f.RefCountOf(blocks[0]) == 2);
  const auto first = f.DecRef(a, {blocks[0], blocks[0]}, /*key=*/2);
  CHECK(first->freed == 1);
  f.Alloc(a, 2);
  const auto again = f.DecRef(a, {blocks[0], blocks[0]}, /*key=*/2);
  REQUIRE(again.ok());
  CHECK(*again == *first);
  CHECK(f.IncRef(a, blocks, /*key=*/1).ok());  // Though its block was let go: it names none.
  CHECK(f.FreeBlocks() == 0);
}

TEST_CASE("Ledger's keys are a session's own, and 0 is none") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  CHECK(f.AllocNow(a, {.count = 1, .key = 7}).blocks[0].block == BlockId{0});
  CHECK(f.AllocNow(b, {.count = 1, .key = 7}).blocks[0].block == BlockId{1});
  CHECK(f.AllocNow(a, {.count = 1, .key = 0}).blocks[0].block == BlockId{2});
  CHECK(f.AllocNow(a, {.count = 1, .key = 0}).blocks[0].block == BlockId{3});
}

TEST_CASE("Ledger takes a wait of 0 and less for none under a key too") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1);
  const AllocAnswer first = f.AllocNow(a, {.count = 1, .key = 7});
  CHECK(f.AllocNow(a, {.count = 1, .wait = Duration::zero(), .key = 7}) == first);
  CHECK(f.AllocNow(a, {.count = 1, .wait = seconds(-1), .key = 7}) == first);
}

TEST_CASE("Ledger refuses another request under a known key, of any method and field") {
  LedgerFixture f(/*num_blocks=*/8);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 2);
  const AllocArguments call = {.count = 1, .wait = seconds(1), .key = 7};
  f.AllocNow(a, call);
  const auto refused = [&](auto change) {
    AllocArguments other = call;
    change(other);
    CHECK(f.TryAlloc(a, other).status().code() == kInvalid);
  };
  refused([](AllocArguments& other) { other.count = 2; });
  refused([](AllocArguments& other) { other.wait = seconds(2); });
  refused([](AllocArguments& other) { other.wait.reset(); });
  refused([](AllocArguments& other) { other.fill = Fill::kZero; });
  refused([](AllocArguments& other) { other.queue = WaitQueue::kAdmit; });
  refused([&](AllocArguments& other) { other.release = blocks; });
  CHECK(f.IncRef(a, blocks, 7).code() == kInvalid);
  CHECK(f.DecRef(a, blocks, 7).status().code() == kInvalid);

  REQUIRE(f.IncRef(a, blocks, 8).ok());
  CHECK(f.DecRef(a, blocks, 8).status().code() == kInvalid);
  CHECK(f.IncRef(a, {blocks[0]}, 8).code() == kInvalid);
  CHECK(f.RefCountOf(blocks[0]) == 2);
}

TEST_CASE("Ledger calls a key spent whose answer names a block that is not held as it was") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1);
  const auto blocks = f.AllocNow(a, {.count = 2, .key = 7}).blocks;
  REQUIRE(f.IncRef(a, blocks).ok());
  f.Drop(a, blocks);
  CHECK(f.AllocNow(a, {.count = 2, .key = 7}).blocks == blocks);
  f.Drop(a, {blocks[1]});
  CheckError(f.TryAlloc(a, {.count = 2, .key = 7}).status(), absl::StatusCode::kFailedPrecondition,
             Reason::kKeySpent);
  // The same block again is another one by its generation.
  CHECK(f.Alloc(a, 1)[0].block == blocks[1].block);
  CheckError(f.TryAlloc(a, {.count = 2, .key = 7}).status(), absl::StatusCode::kFailedPrecondition,
             Reason::kKeySpent);
}

TEST_CASE("Ledger remembers successes alone: a failed call may be tried again under its key") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 2);
  CheckFull(f.TryAlloc(a, {.count = 1, .key = 7}).status(), 0);
  f.Drop(a, blocks);
  CHECK(f.AllocNow(a, {.count = 2, .key = 7}).blocks.size() == 2);
}

TEST_CASE("Ledger forgets the oldest of a session's keyed answers") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/8);
  options.limits.max_idempotency_keys = 2;
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  const auto first = f.AllocNow(a, {.count = 1, .key = 1}).blocks;
  const auto second = f.AllocNow(a, {.count = 1, .key = 2}).blocks;
  f.IncRef(a, first, /*key=*/3).IgnoreError();
  CHECK(f.AllocNow(a, {.count = 1, .key = 2}).blocks == second);
  CHECK(f.AllocNow(a, {.count = 1, .key = 1}).blocks != first);
}

TEST_CASE("Ledger's repeat of a waiting call takes its place, and the first one is aborted") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(b, 1);
  const AllocArguments call = {.count = 1, .wait = seconds(3), .key = 7};
  const PendingId first = f.AllocLater(a, call);
  f.AllocLater(b, {.count = 1, .wait = seconds(60)});
  f.Pass(seconds(2));
  const PendingId repeat = f.AllocLater(a, call);
  CHECK(repeat != first);
  CHECK(f.TakeAnswer(first).status().code() == absl::StatusCode::kAborted);
  CHECK(f.ledger.counts().waiting_calls == 2);
  CHECK_FALSE(f.ledger.Cancel(first, f.now));
  f.Pass(seconds(2));  // It waits its own time.
  f.Drop(b, blocks);
  const auto answer = f.TakeAnswer(repeat);
  REQUIRE(answer.ok());
  CHECK(f.AllocNow(a, call).blocks == answer->blocks);
}

TEST_CASE("Ledger refuses another request under the key of a call that is pending") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 2);
  f.AllocLater(a, {.count = 1, .key = 7});
  CHECK(f.TryAlloc(a, {.count = 2, .wait = seconds(1), .key = 7}).status().code() == kInvalid);
  CHECK(f.IncRef(a, blocks, 7).code() == kInvalid);
  CHECK(f.ledger.counts().waiting_calls == 1);
}

TEST_CASE("Ledger frees the key of a call that was cancelled or whose wait ended") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 1);
  const PendingId id = f.AllocLater(a, {.count = 1, .key = 7});
  SECTION("cancelled") { CHECK(f.ledger.Cancel(id, f.now)); }
  SECTION("its wait over") { f.Pass(seconds(1)); }
  REQUIRE(f.IncRef(a, blocks, 7).ok());
}

TEST_CASE("Ledger's repeat of a call that is being filled gets what the fill gives") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1);
  const AllocArguments call = {.count = 1, .fill = Fill::kZero, .key = 7};
  const auto first = f.TryAlloc(a, call);
  REQUIRE(first.ok());
  const auto repeat = f.TryAlloc(a, call);
  REQUIRE(repeat.ok());
  CHECK(f.TakeAnswer(first->pending).status().code() == absl::StatusCode::kAborted);
  f.FillDone(first->pending, absl::OkStatus());  // Under the id of FillNeeded.
  const auto answer = f.TakeAnswer(repeat->pending);
  REQUIRE(answer.ok());
  CHECK(f.AllocNow(a, call) == *answer);
}

TEST_CASE("Ledger answers the repeat, not the first, when the session of a filling call ends") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1);
  const AllocArguments call = {.count = 1, .fill = Fill::kZero, .key = 7};
  const auto first = f.TryAlloc(a, call);
  const auto repeat = f.TryAlloc(a, call);
  f.ledger.TakeEvents();
  REQUIRE(f.Close(a).ok());
  CheckUnknown(f.TakeAnswer(repeat->pending).status());
  f.FillDone(first->pending, absl::OkStatus());
  CHECK(f.FreeBlocks() == 1);
}

TEST_CASE("Ledger's remembered answers stay spent once their lists were dropped for room") {
  LedgerFixture f(/*num_blocks=*/8'192);
  const SessionId a = f.Open(1);
  for (uint64_t key = 1; key <= 10; ++key) {
    const auto blocks = f.AllocNow(a, {.count = 4'096, .key = key}).blocks;
    f.Drop(a, blocks);
  }
  for (uint64_t key = 1; key <= 10; ++key) {
    CheckError(f.TryAlloc(a, {.count = 4'096, .key = key}).status(),
               absl::StatusCode::kFailedPrecondition, Reason::kKeySpent);
  }
}

}  // namespace
}  // namespace kvpool::test
