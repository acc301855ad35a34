#include <string>
#include <vector>

#include "tests/unit/ledger/cache_fixture.h"

namespace kvpool {
namespace {

using test::CacheFixture;
using test::CheckError;
using test::CheckFull;
using test::KeyOf;
using test::KeysOf;
using test::seconds;

TEST_CASE("Acquire holds the prefix that is findable and takes what it lacks, in one step") {
  CacheFixture f(6);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> cached = f.Cache(a, "ab");
  const AllocAnswer answer = f.Acquire(a, "abcd", 5);
  CHECK(answer.matched_blocks == 2);
  CHECK(answer.last_key == KeyOf('A', "ab"));
  REQUIRE(answer.blocks.size() == 5);
  CHECK(std::vector<BlockRef>(answer.blocks.begin(), answer.blocks.begin() + 2) == cached);
  CHECK(answer.available == 1);
  CHECK_FALSE(f.ledger.GetBlock(answer.blocks[2].block).sealed);
}

TEST_CASE("Acquire never evicts its own hits to make its room") {
  CacheFixture f(4);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> hits = f.Cache(a, "ab");
  f.Cache(a, "xy");
  // The hits are what the policy would evict first.
  const AllocAnswer answer = f.Acquire(a, "abcd", 4);
  CHECK(answer.matched_blocks == 2);
  CHECK(f.Find(a, "ab") == hits);
  CHECK(f.Find(a, "xy").empty());
}

TEST_CASE("Acquire matches no more than it needs") {
  CacheFixture f(4);
  const SessionId a = f.OpenModel(1);
  f.Cache(a, "abc");
  const AllocAnswer answer = f.Acquire(a, "abc", 2);
  CHECK(answer.matched_blocks == 2);
  CHECK(answer.blocks.size() == 2);
  CHECK(f.Acquire(a, "abc", 0).blocks.empty());
}

TEST_CASE("Acquire takes a chunk of what is new where it is told to") {
  CacheFixture f(8);
  const SessionId a = f.OpenModel(1);
  f.Cache(a, "ab");
  const auto outcome = f.TryAcquire(a, KeysOf("ab"), 7, {}, /*max_new=*/2);
  CHECK(outcome->answer.matched_blocks == 2);
  CHECK(outcome->answer.blocks.size() == 4);
}

TEST_CASE("Acquire counts the cached blocks that it finds as taken, but not held ones") {
  CacheFixture f(4);
  const SessionId a = f.OpenModel(1);
  const SessionId b = f.OpenModel(2);
  f.Cache(a, "ab");
  f.Alloc(b, 1);
  CheckFull(f.TryAcquire(a, KeysOf("ab"), 4).status(), 3);
  CHECK(f.CachedBlocks() == 2);
  f.Hold(b, "ab");
  CheckFull(f.TryAcquire(a, KeysOf("ab"), 4).status(), 1);
  CHECK(f.Acquire(a, "ab", 3).matched_blocks == 2);
}

TEST_CASE("An Acquire that fails leaves the order of eviction as it was") {
  CacheFixture f(5);
  const SessionId a = f.OpenModel(1);
  f.Cache(a, "ab");
  f.Cache(a, "xy");
  const SessionId b = f.OpenModel(2);
  f.Alloc(b, 1);
  CHECK_FALSE(f.TryAcquire(a, KeysOf("ab"), 5).ok());
  f.Alloc(b, 2);
  CHECK(f.Find(a, "xy").size() == 2);
}

TEST_CASE("A waiting Acquire finds the prefix that is there when its turn comes") {
  CacheFixture f(4);
  const SessionId a = f.OpenModel(1);
  const SessionId b = f.OpenModel(2);
  const std::vector<BlockRef> held = f.Alloc(b, 3);
  const PendingId waiting = f.AcquireLater(a, "ab", 3);
  f.Publish(b, KeysOf("ab"), {held[0], held[1]});
  const auto answer = f.TakeAnswer(waiting);
  REQUIRE(answer.ok());
  CHECK(answer->matched_blocks == 2);
  CHECK(answer->blocks.size() == 3);
}

TEST_CASE("Sequences that grow are served before those to be admitted") {
  CacheFixture f(4);
  const SessionId a = f.OpenModel(1);
  const SessionId b = f.OpenModel(2);
  const std::vector<BlockRef> held = f.Alloc(b, 4);
  const PendingId admit = f.AcquireLater(a, "ab", 2);
  const PendingId grow = f.AllocLater(b, {.count = 2});
  f.Drop(b, {held[0], held[1]});
  CHECK(f.TakeAnswer(grow)->blocks.size() == 2);
  f.Drop(b, {held[2], held[3]});
  CHECK(f.TakeAnswer(admit)->blocks.size() == 2);
}

TEST_CASE("A waiting Acquire takes nothing once it is cancelled, or its time is over") {
  CacheFixture f(2);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> held = f.Alloc(a, 2);
  const PendingId cancelled = f.AcquireLater(a, "a", 1);
  CHECK(f.ledger.Cancel(cancelled, f.now));
  const PendingId late = f.AcquireLater(a, "a", 1);
  f.Pass(seconds(2));
  CheckFull(f.TakeAnswer(late).status(), 0);
  f.Drop(a, held);
  CHECK(f.FreeBlocks() == 2);
}

TEST_CASE("An impossible Acquire fails at once") {
  LedgerOptions options = test::OptionsOf(8);
  options.max_blocks_per_tenant = 4;
  CacheFixture f(options);
  const SessionId a = f.OpenModel(1);
  CheckError(f.TryAcquire(a, KeysOf("a"), 9, seconds(1)).status(),
             absl::StatusCode::kInvalidArgument, Reason::kUnspecified);
  CheckError(f.TryAcquire(a, KeysOf("a"), 5, seconds(1)).status(),
             absl::StatusCode::kResourceExhausted, Reason::kQuota);
}

TEST_CASE("An Acquire within its session's guarantee does not wait for those before it") {
  CacheFixture f(6);
  const SessionId a = f.OpenModel(1);
  const SessionId b = f.Open(2, {.model_id = "llama", .guaranteed_blocks = 2});
  f.Alloc(a, 4);
  f.AllocLater(a, {.count = 1});
  CHECK(f.Acquire(b, "ab", 2).blocks.size() == 2);
}

TEST_CASE("The keys that waiting calls keep are bounded together") {
  LedgerOptions options = test::OptionsOf(4);
  options.limits.max_named_blocks = 5;
  CacheFixture f(options);
  const SessionId a = f.OpenModel(1);
  f.Alloc(a, 4);
  f.AcquireLater(a, "abc", 3);
  CheckError(f.TryAcquire(a, KeysOf("xyz"), 3, seconds(1)).status(),
             absl::StatusCode::kResourceExhausted, Reason::kLimit);
  f.AcquireLater(a, "xy", 2);
}

TEST_CASE("A repeat of a waiting Acquire takes its place, and of an answered one its answer") {
  CacheFixture f(2);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> held = f.Alloc(a, 2);
  const PrefixKeys keys = KeysOf("a");
  const PendingId first = f.TryAcquire(a, keys, 1, seconds(1), 0, /*key=*/4)->pending;
  const PendingId second = f.TryAcquire(a, keys, 1, seconds(1), 0, /*key=*/4)->pending;
  CHECK(f.TakeAnswer(first).status().code() == absl::StatusCode::kAborted);
  f.Drop(a, {held[0]});
  const auto answer = f.TakeAnswer(second);
  REQUIRE(answer.ok());
  CHECK(f.TryAcquire(a, keys, 1, seconds(1), 0, /*key=*/4)->answer == *answer);
  CheckError(f.TryAcquire(a, KeysOf("b"), 1, seconds(1), 0, /*key=*/4).status(),
             absl::StatusCode::kInvalidArgument, Reason::kUnspecified);
}

TEST_CASE("A guaranteed Acquire whose prefix is shared too often waits for its turn") {
  LedgerOptions options = test::OptionsOf(8);
  options.limits.max_sharers = 2;
  CacheFixture f(options);
  const SessionId a = f.Open(1, {.model_id = "llama", .guaranteed_blocks = 2});
  const SessionId b = f.OpenModel(2);
  const SessionId c = f.OpenModel(3);
  const SessionId d = f.OpenModel(4);
  const SessionId e = f.OpenModel(5);
  const std::vector<BlockRef> shared = f.Alloc(a, 2);
  REQUIRE(f.IncRef(e, shared) == absl::OkStatus());
  const std::vector<BlockRef> published = f.Alloc(b, 1);
  const std::vector<BlockRef> rest = f.Alloc(c, 5);
  f.Drop(a, shared);
  const PendingId grow = f.AllocLater(d, {.count = 5});
  const PendingId admit = f.AcquireLater(a, "x", 2);
  f.Publish(b, KeysOf("x"), published);
  f.Drop(c, {rest[0], rest[1]});
  CHECK(f.Take<AllocDone>().empty());
  f.Drop(e, shared);
  f.Drop(c, {rest[2], rest[3], rest[4]});
  const auto done = f.Take<AllocDone>();
  REQUIRE(done.size() == 2);
  CHECK(done[0].id == grow);
  CHECK(done[0].result.ok());
  CHECK(done[1].id == admit);
  CHECK(done[1].result->matched_blocks == 1);
}

}  // namespace
}  // namespace kvpool
