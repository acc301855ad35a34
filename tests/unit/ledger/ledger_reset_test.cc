#include <string>
#include <vector>

#include "tests/unit/ledger/cache_fixture.h"

namespace kvpool {
namespace {

using test::CacheFixture;
using test::KeysOf;

TEST_CASE("A reset makes everything unfindable; held blocks stay held, others become free") {
  CacheFixture f(8);
  const SessionId a = f.OpenModel(1);
  f.Cache(a, "abc");
  const std::vector<BlockRef> held = f.Hold(a, "ab");
  CHECK(f.ledger.ResetPrefixes(std::nullopt, f.now) == 3);
  f.CheckInvariants();
  CHECK(f.Find(a, "abc").empty());
  CHECK(f.Counts().held_blocks == 2);
  CHECK(f.Counts().cached_blocks == 0);
  CHECK(f.ledger.GetBlock(held[0].block).sealed);
  CHECK(f.DecRef(a, {held[0]})->freed == 1);
  // What was published again after it is findable.
  CHECK(f.Publish(a, KeysOf("x"), f.Alloc(a, 1)).published == 1);
  CHECK(f.Find(a, "x").size() == 1);
}

TEST_CASE("A reset of one tenant leaves the others' prefixes") {
  CacheFixture f(8);
  const SessionId a = f.OpenModel(1);
  f.Cache(a, "ab");
  CHECK(f.ledger.ResetPrefixes("zeta", f.now) == 0);
  CHECK(f.Find(a, "ab").size() == 2);
  CHECK(f.ledger.ResetPrefixes("acme", f.now) == 2);
  CHECK(f.Find(a, "ab").empty());
}

TEST_CASE("What a reset leaves is let go in slices, and counts as room all the while") {
  LedgerOptions options = test::OptionsOf(8);
  options.limits.reclaim_slice = 2;
  CacheFixture f(options);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> blocks = f.Cache(a, "abcdef");
  CHECK(f.ledger.ResetPrefixes(std::nullopt, f.now) == 6);
  f.CheckInvariants();
  CHECK(f.Counts().cached_blocks == 4);
  CHECK(f.Counts().published_blocks == 0);
  CHECK(f.AllocNow(a, {.count = 0}).available == 8);
  CHECK(f.ledger.Reclaim(1, f.now));
  CHECK(f.Counts().cached_blocks == 3);
  CHECK(f.Alloc(a, 6).size() == 6);
  f.CheckInvariants();
  CHECK_FALSE(f.ledger.Reclaim(9, f.now));
  CHECK(f.Counts().cached_blocks == 0);
}

TEST_CASE(
    "A block that a reset left is the cache's no more once it is taken, let go or published") {
  LedgerOptions options = test::OptionsOf(8);
  options.limits.reclaim_slice = 1;
  CacheFixture f(options);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> cached = f.Cache(a, "ab");
  const std::vector<BlockRef> held = f.Alloc(a, 3);
  f.Publish(a, KeysOf("xyz"), held);
  f.ledger.ResetPrefixes(std::nullopt, f.now);
  f.CheckInvariants();
  // One of the cached blocks is free by now; the other one is not.
  const BlockRef left = f.StateOf(cached[0]) == BlockState::kCached ? cached[0] : cached[1];
  REQUIRE(f.StateOf(left) == BlockState::kCached);
  CHECK(f.IncRef(a, {left}) == absl::OkStatus());
  CHECK(f.RefCountOf(left) == 1);
  CHECK(f.DecRef(a, {left})->freed == 1);
  CHECK(f.DecRef(a, {held[2]})->freed == 1);
  CHECK(f.Publish(a, KeysOf("xy"), {held[0], held[1]}).published == 2);
  CHECK(f.RefCountOf(held[0]) == 2);
  CHECK(f.Find(a, "xyz").size() == 2);
  CHECK_FALSE(f.ledger.Reclaim(9, f.now));
  CHECK(f.Find(a, "xyz").size() == 2);
  CHECK(f.DecRef(a, {held[0], held[1]})->cached == 2);
}

}  // namespace
}  // namespace kvpool
