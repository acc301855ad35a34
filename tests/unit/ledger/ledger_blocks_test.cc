#include <algorithm>
#include <set>

#include "tests/support/random.h"
#include "tests/unit/ledger/ledger_fixture.h"

namespace kvpool::test {
namespace {

constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

TEST_CASE("Ledger's first allocations are 0, 1, 2; then the block freed last comes first") {
  LedgerFixture f(/*num_blocks=*/6);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 3);
  CHECK(IndicesOf(blocks) == std::vector<uint32_t>{0, 1, 2});
  f.Drop(a, {blocks[2], blocks[0]});
  CHECK(IndicesOf(f.Alloc(a, 3)) == std::vector<uint32_t>{0, 2, 3});
}

TEST_CASE("Ledger names a block's generation, which rises when it is allocated again") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1);
  const BlockRef first = f.Alloc(a, 1).front();
  CHECK(first.generation == Generation{1});
  f.Drop(a, {first});
  CHECK(f.Alloc(a, 1).front().generation == Generation{2});
}

// Field case 1.
TEST_CASE("Ledger refuses a second DecRef of a block dropped to 0, and frees it once") {
  LedgerFixture f(/*num_blocks=*/8);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 1);
  f.Drop(a, blocks);
  CheckEntryError(f.DecRef(a, blocks).status(), kFailedPrecondition, Reason::kNotHeld, 0,
                  blocks[0].block);
  CHECK(f.FreeBlocks() == 8);
}

// Field case 3.
TEST_CASE("Ledger drops all entries of a list or none, duplicates counted as they stand") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 2);
  CheckEntryError(f.DecRef(a, {blocks[0], blocks[1], blocks[0]}).status(), kFailedPrecondition,
                  Reason::kNotHeld, 2, blocks[0].block);
  CHECK(f.RefCountOf(blocks[0]) == 1);
  CHECK(f.RefCountOf(blocks[1]) == 1);
  CHECK(f.FreeBlocks() == 2);

  REQUIRE(f.IncRef(a, {blocks[0], blocks[0]}).ok());
  CHECK(f.RefCountOf(blocks[0]) == 3);
  const auto answer = f.DecRef(a, {blocks[0], blocks[1], blocks[0], blocks[0]});
  REQUIRE(answer.ok());
  CHECK(answer->freed == 2);
  CHECK(answer->cached == 0);
  CHECK(answer->available == 4);
}

// Field case 5.
TEST_CASE("Ledger refuses ids out of range, and other sessions' blocks") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(a, 1);
  CheckEntryError(f.DecRef(b, blocks).status(), kFailedPrecondition, Reason::kNotHeld, 0,
                  blocks[0].block);
  CheckError(f.TryPin(b, blocks, {}).status(), kFailedPrecondition, Reason::kNotHeld);
  for (const uint32_t id : {4U, UINT32_MAX}) {
    const auto status = f.DecRef(a, {blocks[0], {BlockId{id}, {}}}).status();
    CheckEntryError(status, absl::StatusCode::kInvalidArgument, Reason::kUnspecified, 1,
                    BlockId{id});
    CHECK(status.message() ==
          "entry 1: block " + std::to_string(id) + " is not in the pool of 4 blocks");
  }
  CHECK(f.RefCountOf(blocks[0]) == 1);
}

TEST_CASE("Ledger tells of an id out of range before a block that is not held") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1);
  CheckEntryError(f.DecRef(a, {{BlockId{0}, {}}, {BlockId{9}, {}}}).status(),
                  absl::StatusCode::kInvalidArgument, Reason::kUnspecified, 1, BlockId{9});
}

// Field case 9.
TEST_CASE("Ledger's extra releases are errors that leave the other holder alone") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(a, 1);
  REQUIRE(f.IncRef(b, blocks).ok());
  f.Drop(b, blocks);
  CheckError(f.DecRef(b, blocks).status(), kFailedPrecondition, Reason::kNotHeld);
  CheckError(f.DecRef(b, blocks).status(), kFailedPrecondition, Reason::kNotHeld);
  CHECK(f.RefCountOf(blocks[0]) == 1);
  CHECK(f.StateOf(blocks[0]) == BlockState::kHeld);
}

TEST_CASE("Ledger frees a shared block when its last holder lets it go") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(a, 1);
  REQUIRE(f.IncRef(b, {blocks[0], blocks[0]}).ok());
  CHECK(f.DecRef(a, blocks)->freed == 0);
  CHECK(f.DecRef(b, blocks)->freed == 0);
  CHECK(f.DecRef(b, blocks)->freed == 1);
}

TEST_CASE("Ledger's IncRef needs the generation of a block that the session does not hold") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(a, 1);
  CheckEntryError(f.IncRef(b, WithoutGenerations(blocks)), kFailedPrecondition, Reason::kNotHeld, 0,
                  blocks[0].block);
  CheckEntryError(f.IncRef(b, {blocks[0], {blocks[0].block, Generation{7}}}), kFailedPrecondition,
                  Reason::kStaleBlock, 1, blocks[0].block);
  CHECK(f.RefCountOf(blocks[0]) == 1);
  REQUIRE(f.IncRef(b, {blocks[0], {blocks[0].block, {}}}).ok());
  CHECK(f.RefCountOf(blocks[0]) == 3);
  REQUIRE(f.IncRef(b, WithoutGenerations(blocks)).ok());
}

TEST_CASE("Ledger's IncRef brings no free block back to life") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(a, 1);
  f.Drop(a, blocks);
  CheckEntryError(f.IncRef(b, blocks), kFailedPrecondition, Reason::kNotLive, 0, blocks[0].block);
  CheckError(f.IncRef(b, {{BlockId{1}, Generation{1}}}), kFailedPrecondition, Reason::kStaleBlock);
  // Another one has it by now.
  f.Alloc(a, 1);
  CheckError(f.IncRef(b, blocks), kFailedPrecondition, Reason::kStaleBlock);
}

TEST_CASE("Ledger's IncRef refuses a quarantined block as not live") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2, {.process = ProcessId{2}});
  const auto blocks = f.Alloc(a, 1);
  f.Detach(a);
  REQUIRE(f.StateOf(blocks[0]) == BlockState::kQuarantined);
  CheckError(f.IncRef(b, blocks), kFailedPrecondition, Reason::kNotLive);
}

TEST_CASE("Ledger's IncRef refuses another tenant's block") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1, {.tenant = "other"});
  const SessionId b = f.Open(2);
  const auto alloc = f.ledger.Alloc({.caller = {a, "other"}, .count = 1}, f.now);
  REQUIRE(alloc.ok());
  const auto& blocks = alloc->answer.blocks;
  CheckError(f.IncRef(b, blocks), absl::StatusCode::kPermissionDenied, Reason::kUnspecified);
  CHECK(f.RefCountOf(blocks[0]) == 1);
}

TEST_CASE("Ledger's DecRef refuses a held block at another generation") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 2);
  CheckEntryError(f.DecRef(a, {blocks[0], {blocks[1].block, Generation{9}}}).status(),
                  kFailedPrecondition, Reason::kStaleBlock, 1, blocks[1].block);
  CHECK(f.RefCountOf(blocks[0]) == 1);
}

TEST_CASE("Ledger refuses a list over max_blocks_per_call, and takes one of just that") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/10);
  options.limits.max_blocks_per_call = 3;
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  auto blocks = f.Alloc(a, 3);
  CHECK(f.TryAlloc(a, {.count = 4}).status().code() == absl::StatusCode::kInvalidArgument);
  REQUIRE(f.IncRef(a, blocks).ok());
  blocks.push_back(blocks.front());
  CHECK(f.IncRef(a, blocks).code() == absl::StatusCode::kInvalidArgument);
  CHECK(f.DecRef(a, blocks).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(f.TryPin(a, blocks, {}).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(f.TryPin(a, {}, blocks).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(f.ledger.CheckHeld(f.Of(a), blocks).code() == absl::StatusCode::kInvalidArgument);
  CHECK(f.TryAlloc(a, {.release = blocks}).status().code() == absl::StatusCode::kInvalidArgument);
  blocks.pop_back();
  f.Drop(a, blocks);
}

// Field case 23.
TEST_CASE("Ledger allocates all that is asked for or nothing, and says how much could be had") {
  LedgerFixture f(/*num_blocks=*/6);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  f.Alloc(a, 2);
  CheckFull(f.TryAlloc(a, {.count = 6}).status(), 4);
  CHECK(f.FreeBlocks() == 4);
  CHECK(f.AllocNow(a, {.count = 3}).available == 1);
  CheckFull(f.TryAlloc(b, {.count = 3}).status(), 1);
  CHECK(f.FreeBlocks() == 1);
}

// Field case 76.
TEST_CASE("Ledger refuses more than the pool can ever give at once, waiting or not") {
  LedgerFixture f(/*num_blocks=*/10);
  const SessionId a = f.Open(1);
  CHECK(f.TryAlloc(a, {.count = 11, .wait = seconds(60)}).status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(f.TryAlloc(a, {.count = 11, .allow_partial = true}).status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(f.Alloc(f.Open(2), 1).size() == 1);
}

// Field case 28.
TEST_CASE("Ledger takes empty lists and a count of 0 as calls that do nothing") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  CHECK(f.AllocNow(a, {.count = 0}).blocks.empty());
  CHECK(f.AllocNow(a, {.count = 0}).available == 2);
  CHECK(f.IncRef(a, {}).ok());
  CHECK(f.DecRef(a, {})->available == 2);
  CHECK(f.TryPin(a, {}, {})->granted);
  CHECK(f.ledger.CheckHeld(f.Of(a), {}).ok());
}

TEST_CASE("Ledger gives a partial allocation what there is, down to none") {
  LedgerFixture f(/*num_blocks=*/3);
  const SessionId a = f.Open(1);
  CHECK(f.AllocNow(a, {.count = 2, .allow_partial = true}).blocks.size() == 2);
  CHECK(f.AllocNow(a, {.count = 2, .allow_partial = true}).blocks.size() == 1);
  CHECK(f.AllocNow(a, {.count = 2, .allow_partial = true}).blocks.empty());
}

TEST_CASE("Ledger refuses a partial allocation that would wait") {
  LedgerFixture f(/*num_blocks=*/3);
  const SessionId a = f.Open(1);
  CHECK(f.TryAlloc(a, {.count = 1, .allow_partial = true, .wait = seconds(1)}).status().code() ==
        absl::StatusCode::kInvalidArgument);
}

TEST_CASE("Ledger takes a wait of 0 and less as none in a partial allocation too") {
  LedgerFixture f(/*num_blocks=*/3);
  const SessionId a = f.Open(1);
  const Duration wait = GENERATE(seconds(0), seconds(-1));
  f.Alloc(a, 1);
  CHECK(f.AllocNow(a, {.count = 3, .allow_partial = true, .wait = wait}).blocks.size() == 2);
}

TEST_CASE("Ledger drops what an Alloc releases first, for it to take again") {
  LedgerFixture f(/*num_blocks=*/3);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 3);
  const auto answer = f.AllocNow(a, {.count = 2, .release = {blocks[0], blocks[1]}});
  CHECK(IndicesOf(answer.blocks) == std::vector<uint32_t>{1, 0});
  CHECK(answer.blocks[0].generation == Generation{2});
  CHECK(answer.available == 0);
  CHECK(f.ledger.GetSession(a, 9)->held_blocks == 3);
}

TEST_CASE("Ledger drops nothing for an Alloc that fails, in room or in what it releases") {
  LedgerFixture f(/*num_blocks=*/3);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(a, 2);
  f.Alloc(b, 1);
  CheckFull(f.TryAlloc(a, {.count = 2, .release = {blocks[0]}}).status(), 1);
  CheckEntryError(f.TryAlloc(a, {.count = 1, .release = {blocks[0], blocks[0]}}).status(),
                  kFailedPrecondition, Reason::kNotHeld, 1, blocks[0].block);
  CheckEntryError(
      f.TryAlloc(a, {.count = 1, .release = {{blocks[0].block, Generation{5}}}}).status(),
      kFailedPrecondition, Reason::kStaleBlock, 0, blocks[0].block);
  CHECK(f.RefCountOf(blocks[0]) == 1);
  CHECK(f.FreeBlocks() == 0);
}

TEST_CASE("Ledger counts of what an Alloc releases only what that frees") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(a, 2);
  REQUIRE(f.IncRef(b, {blocks[0]}).ok());
  REQUIRE(f.IncRef(a, {blocks[1]}).ok());
  // The first stays with b, the second has another reference of a's.
  CheckFull(f.TryAlloc(a, {.count = 1, .release = {blocks[0], blocks[1]}}).status(), 0);
  CHECK(f.AllocNow(a, {.count = 1, .release = {blocks[0], blocks[1], blocks[1]}}).blocks.size() ==
        1);
}

TEST_CASE("Ledger holds a tenant to its quota over all its sessions") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/10);
  options.max_blocks_per_tenant = 4;
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto blocks = f.Alloc(a, 3);
  REQUIRE(f.IncRef(b, blocks).ok());  // Each block counts once.
  CheckError(f.TryAlloc(b, {.count = 2, .wait = seconds(1)}).status(),
             absl::StatusCode::kResourceExhausted, Reason::kQuota);
  const AllocAnswer answer = f.AllocNow(b, {.count = 2, .allow_partial = true});
  CHECK(answer.blocks.size() == 1);
  CHECK(answer.available == 0);

  const SessionId c = f.Open(3, {.tenant = "other"});
  CHECK(f.ledger.Alloc({.caller = {c, "other"}, .count = 4}, f.now).ok());
  CHECK(f.AllocNow(b, {.count = 1, .release = answer.blocks}).blocks.size() == 1);
}

TEST_CASE("Ledger counts quarantined blocks towards the quota") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/10);
  options.max_blocks_per_tenant = 4;
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2, {.process = ProcessId{2}});
  f.Alloc(a, 3);
  f.Detach(a);
  CheckError(f.TryAlloc(b, {.count = 2}).status(), absl::StatusCode::kResourceExhausted,
             Reason::kQuota);
  f.Gone(kProcess);
  CHECK(f.Alloc(b, 4).size() == 4);
}

TEST_CASE("Ledger answers a session to its own tenant only") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const Caller thief = {.session = a, .tenant = "other"};
  const auto denied = absl::StatusCode::kPermissionDenied;
  CHECK(f.ledger.Alloc({.caller = thief, .count = 1}, f.now).status().code() == denied);
  CHECK(f.ledger.IncRef({.caller = thief}, f.now).code() == denied);
  CHECK(f.ledger.DecRef({.caller = thief}, f.now).status().code() == denied);
  CHECK(f.ledger.Pin({.caller = thief}, f.now).status().code() == denied);
  CHECK(f.ledger.CheckHeld(thief, {}).code() == denied);
  CHECK(f.ledger.BeginCall(thief, f.now).code() == denied);
  CHECK(f.ledger.Attach(thief, kProcess, f.now).code() == denied);
  CHECK(f.ledger.AddProcess(thief, kProcess, f.now).code() == denied);
  CHECK(f.ledger.CloseSession(thief, f.now).code() == denied);
}

TEST_CASE("Ledger does not know sessions that were never opened") {
  LedgerFixture f(/*num_blocks=*/2);
  const Caller nobody = f.Of(IdOf(9));
  CheckUnknown(f.ledger.Alloc({.caller = nobody, .count = 1}, f.now).status());
  CheckUnknown(f.ledger.IncRef({.caller = nobody}, f.now));
  CheckUnknown(f.ledger.DecRef({.caller = nobody}, f.now).status());
  CheckUnknown(f.ledger.Pin({.caller = nobody}, f.now).status());
  CheckUnknown(f.ledger.CheckHeld(nobody, {}));
  CheckUnknown(f.ledger.BeginCall(nobody, f.now));
  CheckUnknown(f.ledger.Attach(nobody, kProcess, f.now));
  CheckUnknown(f.ledger.AddProcess(nobody, kProcess, f.now));
  CheckUnknown(f.ledger.CloseSession(nobody, f.now));
  CheckUnknown(f.ledger.TerminateSession(nobody.session, true, f.now));
  CheckUnknown(f.ledger.GetSession(nobody.session, 1).status());
}

// The drain of the field cases: what is free can be had, each block once.
TEST_CASE("Ledger gives out exactly its free blocks, one by one, to whoever asks") {
  LedgerFixture f(/*num_blocks=*/9);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const auto held = f.Alloc(a, 5);
  f.Drop(a, {held[1], held[3]});
  std::set<uint32_t> seen;
  for (int i = 0; i < 6; ++i) seen.insert(ToIndex(f.Alloc(b, 1).front().block));
  CheckFull(f.TryAlloc(b, {.count = 1}).status(), 0);
  CHECK(seen == std::set<uint32_t>{1, 3, 5, 6, 7, 8});
}

}  // namespace
}  // namespace kvpool::test
