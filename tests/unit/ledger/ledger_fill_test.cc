#include "tests/unit/ledger/ledger_fixture.h"

namespace kvpool::test {
namespace {

using Blocks = std::vector<BlockId>;

// Allocates for a session of tenant `tenant`, so that the blocks are its own last.
std::vector<BlockRef> AllocOf(LedgerFixture& f, uint8_t n, const std::string& tenant,
                              uint32_t count) {
  const SessionId session = f.Open(n, {.tenant = tenant});
  const auto outcome = f.ledger.Alloc({.caller = {session, tenant}, .count = count}, f.now);
  REQUIRE(outcome.ok());
  REQUIRE(outcome->pending == PendingId{});
  return outcome->answer.blocks;
}

void CloseOf(LedgerFixture& f, uint8_t n, const std::string& tenant) {
  REQUIRE(f.ledger.CloseSession({IdOf(n), tenant}, f.now).ok());
}

// An Alloc that waits for its fill.
FillNeeded AllocFilling(LedgerFixture& f, const SessionId& session, const AllocArguments& call) {
  f.ledger.TakeEvents();
  const auto outcome = f.TryAlloc(session, call);
  REQUIRE(outcome.ok());
  REQUIRE(outcome->pending != PendingId{});
  auto needed = f.Take<FillNeeded>();
  REQUIRE(needed.size() == 1);
  CHECK(needed[0].id == outcome->pending);
  return needed[0];
}

TEST_CASE("Ledger zeroes what another tenant had last, and nothing else, by default") {
  LedgerFixture f(/*num_blocks=*/4);
  const SessionId a = f.Open(1);
  const auto own = f.Alloc(a, 1);
  AllocOf(f, 2, "other", 2);
  CloseOf(f, 2, "other");
  f.Drop(a, own);
  // 0 was its own, 1 and 2 the other's, 3 nobody's.
  const FillNeeded needed = AllocFilling(f, a, {.count = 4});
  CHECK(needed.zero == Blocks{BlockId{1}, BlockId{2}});
  CHECK(needed.poison.empty());
  CHECK(f.ledger.GetSession(a, 9)->held_blocks == 4);

  f.FillDone(needed.id, absl::OkStatus());
  const auto answer = f.TakeAnswer(needed.id);
  REQUIRE(answer.ok());
  CHECK(IndicesOf(answer->blocks) == std::vector<uint32_t>{0, 1, 2, 3});
  CHECK(answer->available == 0);
  f.Drop(a, answer->blocks);
  CHECK(f.AllocNow(a, {.count = 4}).blocks.size() == 4);
}

TEST_CASE("Ledger zeroes no block that nobody had yet, whatever its generations begin after") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/2);
  options.before_first_generation = 1'000;
  LedgerFixture f(options);
  CHECK(AllocOf(f, 1, "acme", 1)[0].generation == Generation{1'001});
  CloseOf(f, 1, "acme");
  const SessionId other = f.Open(2, {.tenant = "other"});
  f.ledger.TakeEvents();
  REQUIRE(f.ledger.Alloc({.caller = {other, "other"}, .count = 2}, f.now).ok());
  const auto needed = f.Take<FillNeeded>();
  REQUIRE(needed.size() == 1);
  CHECK(needed[0].zero == Blocks{BlockId{0}});
}

TEST_CASE("Ledger fills every block where the call or the pool asks for zero or poison") {
  LedgerOptions options = OptionsOf(/*num_blocks=*/4);
  options.fill_on_alloc = Fill::kPoison;
  LedgerFixture f(options);
  const SessionId a = f.Open(1);
  const FillNeeded by_pool = AllocFilling(f, a, {.count = 2});
  CHECK(by_pool.poison == Blocks{BlockId{0}, BlockId{1}});
  CHECK(by_pool.zero.empty());
  const FillNeeded by_call = AllocFilling(f, a, {.count = 1, .fill = Fill::kZero});
  CHECK(by_call.zero == Blocks{BlockId{2}});
  CHECK(f.AllocNow(a, {.count = 1, .fill = Fill::kAcrossTenants}).blocks.size() == 1);
  CHECK(f.AllocNow(a, {.count = 0}).blocks.empty());
}

TEST_CASE("Ledger's fill pins its blocks: byte operations on them wait") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const FillNeeded needed = AllocFilling(f, a, {.count = 1, .fill = Fill::kZero});
  const PendingId read = f.Pin(a, {{BlockId{0}, {}}}, {}, /*granted=*/false);
  f.FillDone(needed.id, absl::OkStatus());
  const auto done = f.Take<PinDone>();
  REQUIRE(done.size() == 1);
  CHECK(done[0].id == read);
  CHECK(done[0].status.ok());
  f.Unpin(read);
}

TEST_CASE("Ledger lets the blocks of a failed fill go, and fills them for whoever is next") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const FillNeeded needed = AllocFilling(f, a, {.count = 2, .fill = Fill::kPoison});
  f.FillDone(needed.id, absl::UnavailableError("the device is lost"));
  CHECK(f.TakeAnswer(needed.id).status() == absl::UnavailableError("the device is lost"));
  CHECK(f.FreeBlocks() == 2);
  // Its own tenant's, but of what is in it nobody can be sure.
  const FillNeeded again = AllocFilling(f, a, {.count = 1, .fill = Fill::kAcrossTenants});
  CHECK(again.zero.size() == 1);
  f.FillDone(again.id, absl::OkStatus());
  const auto answer = f.TakeAnswer(again.id);
  REQUIRE(answer.ok());
  f.Drop(a, answer->blocks);
  CHECK(f.Alloc(a, 1) == std::vector<BlockRef>{{answer->blocks[0].block, Generation{3}}});
}

TEST_CASE("Ledger answers at once the filling call of a session that ends; its blocks wait") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const FillNeeded needed = AllocFilling(f, a, {.count = 1, .fill = Fill::kZero});
  REQUIRE(f.Close(a).ok());
  CheckUnknown(f.TakeAnswer(needed.id).status());
  CHECK(f.ledger.counts().quarantined_blocks == 1);
  SECTION("the fill ends well") {
    f.FillDone(needed.id, absl::OkStatus());
    CHECK(f.Alloc(f.Open(2), 2).size() == 2);
  }
  SECTION("the fill fails") {
    f.FillDone(needed.id, absl::InternalError("no"));
    CHECK(f.FreeBlocks() == 2);
    CHECK(AllocFilling(f, f.Open(2), {.count = 1}).zero.size() == 1);
  }
  CHECK(f.Take<AllocDone>().empty());
}

TEST_CASE("Ledger cancels no Alloc that is being filled") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1);
  const FillNeeded needed = AllocFilling(f, a, {.count = 1, .fill = Fill::kZero});
  CHECK_FALSE(f.ledger.Cancel(needed.id, f.now));
  f.FillDone(needed.id, absl::OkStatus());
  CHECK(f.TakeAnswer(needed.id).ok());
}

TEST_CASE("Ledger lets no session expire while its blocks are being filled") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1, {.ttl = seconds(1)});
  const FillNeeded needed = AllocFilling(f, a, {.count = 1, .fill = Fill::kZero});
  f.Pass(seconds(10));
  f.FillDone(needed.id, absl::OkStatus());
  CHECK(f.TakeAnswer(needed.id).ok());
  f.Pass(seconds(1));
  CHECK(f.Take<SessionEnded>().size() == 1);
}

TEST_CASE("Ledger fills for a waiting Alloc, too, when it is served") {
  LedgerFixture f(/*num_blocks=*/1);
  const SessionId a = f.Open(1);
  const auto blocks = f.Alloc(a, 1);
  const PendingId id = f.AllocLater(a, {.count = 1, .fill = Fill::kPoison});
  f.ledger.TakeEvents();
  f.Drop(a, blocks);
  auto needed = f.Take<FillNeeded>();
  REQUIRE(needed.size() == 1);
  CHECK(needed[0].id == id);
  CHECK(f.ledger.counts().waiting_calls == 0);
  f.Pass(seconds(5));  // Its wait is over: it is answered by its fill now.
  CHECK(f.Take<AllocDone>().empty());
  f.FillDone(id, absl::OkStatus());
  CHECK(f.TakeAnswer(id).ok());
}

TEST_CASE("Ledger lets the blocks of a failed fill go though another session took one") {
  LedgerFixture f(/*num_blocks=*/2);
  const SessionId a = f.Open(1);
  const SessionId b = f.Open(2);
  const FillNeeded needed = AllocFilling(f, a, {.count = 2, .fill = Fill::kZero});
  REQUIRE(f.IncRef(b, {{BlockId{0}, Generation{1}}}).ok());
  f.Drop(a, {{BlockId{1}, Generation{1}}});  // It guessed.
  CHECK(f.StateOf({BlockId{1}, {}}) == BlockState::kQuarantined);
  f.FillDone(needed.id, absl::InternalError("no"));
  CHECK_FALSE(f.TakeAnswer(needed.id).ok());
  CHECK(f.StateOf({BlockId{0}, {}}) == BlockState::kHeld);
  CHECK(f.StateOf({BlockId{1}, {}}) == BlockState::kFree);
  CHECK(f.ledger.GetSession(a, 0)->held_blocks == 0);
}

}  // namespace
}  // namespace kvpool::test
