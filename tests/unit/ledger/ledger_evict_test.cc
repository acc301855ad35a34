#include <string>
#include <vector>

#include "tests/unit/ledger/cache_fixture.h"

namespace kvpool {
namespace {

using test::CacheFixture;
using test::CheckEntryError;
using test::CheckError;
using test::CheckFull;
using test::IndicesOf;
using test::KeysOf;

TEST_CASE("Alloc takes cached blocks when free ones run out, the leaf used longest ago first") {
  CacheFixture f(5);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> old = f.Cache(a, "ab");
  const std::vector<BlockRef> young = f.Cache(a, "xy");
  CHECK(f.Alloc(a, 2).size() == 2);
  CHECK(f.Find(a, "ab") == std::vector<BlockRef>{old[0]});
  CHECK(f.Find(a, "xy") == young);
  CHECK(f.Alloc(a, 3).size() == 3);
  CHECK(f.Counts().published_blocks == 0);
  CheckFull(f.TryAlloc(a, {.count = 1}).status(), 0);
}

TEST_CASE("A use keeps a prefix: what was looked up since goes last") {
  CacheFixture f(4);
  const SessionId a = f.OpenModel(1);
  f.Cache(a, "ab");
  f.Cache(a, "xy");
  f.Drop(a, f.Hold(a, "ab"));
  f.Alloc(a, 2);
  CHECK(f.Find(a, "ab").size() == 2);
  CHECK(f.Find(a, "xy").empty());
}

TEST_CASE("A hint that finds a prefix is no use of it") {
  CacheFixture f(4);
  const SessionId a = f.OpenModel(1);
  f.Cache(a, "ab");
  f.Cache(a, "xy");
  f.Find(a, "ab");
  f.Alloc(a, 2);
  CHECK(f.Find(a, "xy").size() == 2);
}

TEST_CASE("Where no leaf is unheld, held ones become unfindable until one is, and stay held") {
  CacheFixture f(3);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> blocks = f.Alloc(a, 3);
  f.Publish(a, KeysOf("abc"), blocks);
  f.Drop(a, {blocks[0]});
  CHECK(f.Counts().cached_blocks == 1);
  CHECK(f.AllocNow(a, {.count = 1}).available == 0);
  CHECK(f.StateOf(blocks[1]) == BlockState::kHeld);
  CHECK(f.StateOf(blocks[2]) == BlockState::kHeld);
  CHECK(f.Counts().published_blocks == 0);
  // Not findable, so free when they are let go.
  CHECK(f.DecRef(a, {blocks[1], blocks[2]})->freed == 2);
}

TEST_CASE("A tenant at its quota evicts its own blocks, not others'") {
  LedgerOptions options = test::OptionsOf(8);
  options.max_blocks_per_tenant = 3;
  CacheFixture f(options);
  const SessionId a = f.OpenModel(1);
  const SessionId other = f.Open(2, {.tenant = "zeta", .model_id = "llama"});
  const PrefixKeys keys = KeysOf("q", "", 'Z');
  const auto theirs = f.ledger.Alloc({.caller = {other, "zeta"}, .count = 1}, f.now);
  REQUIRE(
      f.ledger
          .Publish({.caller = {other, "zeta"}, .prefix = &keys, .blocks = theirs->answer.blocks},
                   f.now)
          .ok());
  REQUIRE(
      f.ledger.DecRef({.caller = {other, "zeta"}, .blocks = theirs->answer.blocks}, f.now).ok());
  f.Cache(a, "abc");
  CHECK(f.AllocNow(a, {.count = 0}).available == 3);
  CHECK(f.Alloc(a, 2).size() == 2);
  CHECK(f.Find(a, "abc").size() == 1);
  CHECK(f.Counts().published_blocks == 2);
  CHECK(f.Counts().free_blocks == 4);
  CheckError(f.TryAlloc(a, {.count = 2}).status(), absl::StatusCode::kResourceExhausted,
             Reason::kQuota);
}

TEST_CASE("What one tenant wrote is zeroed before an evicted block is another's") {
  CacheFixture f(1);
  const SessionId a = f.OpenModel(1);
  f.Cache(a, "a");
  const SessionId b = f.OpenModel(2, "zeta");
  const auto outcome = f.ledger.Alloc({.caller = {b, "zeta"}, .count = 1}, f.now);
  REQUIRE(outcome.ok());
  CHECK(outcome->pending != PendingId{});
  const auto fills = f.Take<FillNeeded>();
  REQUIRE(fills.size() == 1);
  CHECK(fills[0].zero == std::vector<BlockId>{BlockId{0}});
}

TEST_CASE("Blocks whose sequence is done are the first to go under the learned policy") {
  Ledger ledger({.num_blocks = 4});
  const Caller caller = {test::IdOf(1), "acme"};
  TimePoint now{test::seconds(1)};
  REQUIRE(
      ledger
          .OpenSession(
              {.id = caller.session, .tenant = "acme", .model_id = "m", .ttl = test::seconds(60)},
              now)
          .ok());
  const auto cache = [&](const std::string& text, bool done) {
    const PrefixKeys keys = KeysOf(text);
    const auto blocks = ledger.Alloc({.caller = caller, .count = 2}, now)->answer.blocks;
    REQUIRE(ledger.Publish({.caller = caller, .prefix = &keys, .blocks = blocks}, now).ok());
    REQUIRE(ledger.DecRef({.caller = caller, .blocks = blocks, .done = done}, now)->cached == 2);
    now += test::seconds(1);
  };
  cache("ab", /*done=*/false);
  cache("xy", /*done=*/true);
  REQUIRE(ledger.Alloc({.caller = caller, .count = 2}, now).ok());
  const PrefixKeys kept = KeysOf("ab");
  CHECK(ledger.Lookup({.caller = caller, .prefix = &kept}, now)->blocks.size() == 2);
  CHECK(ledger.CheckInvariants() == absl::OkStatus());
}

TEST_CASE("Evict by list lets go of leaves, and of parents whose children are listed") {
  CacheFixture f(6);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> blocks = f.Cache(a, "abc");
  const auto refused = [&](const std::vector<BlockRef>& list, uint32_t index) {
    CheckEntryError(f.TryEvict(a, list).status(), absl::StatusCode::kFailedPrecondition,
                    Reason::kNotLeaf, index, list[index].block);
  };
  refused({blocks[1]}, 0);
  refused({blocks[2], blocks[0]}, 1);
  const EvictAnswer answer = f.Evict(a, {blocks[1], blocks[2], blocks[2]});
  CHECK(answer.blocks == std::vector<BlockId>{blocks[2].block, blocks[1].block});
  CHECK(answer.freed == 2);
  CHECK(f.Find(a, "abc") == std::vector<BlockRef>{blocks[0]});
  // One that is not findable is skipped.
  CHECK(f.Evict(a, test::WithoutGenerations({blocks[2]})).blocks.empty());
}

TEST_CASE("Evict leaves a block to those who hold it") {
  CacheFixture f(4);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> blocks = f.Alloc(a, 1);
  f.Publish(a, KeysOf("a"), blocks);
  const EvictAnswer answer = f.Evict(a, blocks);
  CHECK(answer.blocks.size() == 1);
  CHECK(answer.freed == 0);
  CHECK(f.StateOf(blocks[0]) == BlockState::kHeld);
  CHECK(f.RefCountOf(blocks[0]) == 1);
  CHECK(f.DecRef(a, blocks)->freed == 1);
}

// Field case 88.
TEST_CASE("Evict skips what is gone, or somebody else's by now, and lets go of the others") {
  CacheFixture f(3);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> x = f.Cache(a, "x");
  const std::vector<BlockRef> y = f.Cache(a, "y");
  const std::vector<BlockRef> z = f.Cache(a, "z");
  const std::vector<BlockRef> taken = f.Alloc(a, 1);
  REQUIRE(taken[0].block == x[0].block);
  CHECK(f.Evict(a, {x[0], y[0]}).blocks == std::vector<BlockId>{y[0].block});
  // A list that is repeated after its answer was lost finds another's prefix there.
  f.Publish(a, KeysOf("w"), taken);
  CHECK(f.Evict(a, {x[0], y[0]}).blocks.empty());
  CHECK(f.Find(a, "w") == taken);
  CHECK(f.Evict(a, {x[0], z[0]}).blocks == std::vector<BlockId>{z[0].block});
}

TEST_CASE("Evict refuses another tenant's block, and a list with a count") {
  CacheFixture f(4);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> blocks = f.Cache(a, "a");
  CheckError(f.TryEvict(a, blocks, /*count=*/1).status(), absl::StatusCode::kInvalidArgument,
             Reason::kUnspecified);
  const SessionId other = f.OpenModel(2, "zeta");
  CHECK(f.ledger.Evict({.caller = {other, "zeta"}, .blocks = blocks}, f.now).status().code() ==
        absl::StatusCode::kPermissionDenied);
}

TEST_CASE("Evict by count takes what the policy would evict next, of the tenant's, unheld") {
  CacheFixture f(8);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> first = f.Cache(a, "ab");
  const std::vector<BlockRef> second = f.Cache(a, "xy");
  f.Hold(a, "x");
  const auto answer = f.TryEvict(a, {}, /*count=*/3);
  CHECK(answer->blocks == std::vector<BlockId>{first[1].block, first[0].block, second[1].block});
  CHECK(answer->freed == 3);
  CHECK(f.TryEvict(a, {}, /*count=*/3)->blocks.empty());
}

TEST_CASE("free + cached is what Alloc can give") {
  CacheFixture f(6);
  const SessionId a = f.OpenModel(1);
  f.Cache(a, "abcd");
  f.Hold(a, "ab");
  CHECK(f.AllocNow(a, {.count = 0}).available == 4);
  CheckFull(f.TryAlloc(a, {.count = 5}).status(), 4);
  CHECK(IndicesOf(f.Alloc(a, 4)).size() == 4);
}

}  // namespace
}  // namespace kvpool
