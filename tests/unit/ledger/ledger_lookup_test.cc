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

TEST_CASE("A hint holds nothing; an acquiring lookup holds each block once") {
  CacheFixture f(4);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> blocks = f.Cache(a, "ab");
  CHECK(f.Find(a, "ab") == blocks);
  CHECK(f.CachedBlocks() == 2);
  CHECK(f.Hold(a, "abc") == blocks);
  CHECK(f.CachedBlocks() == 0);
  const auto dropped = f.DecRef(a, blocks);
  CHECK(dropped->cached == 2);
  CHECK(dropped->freed == 0);
  CHECK(dropped->available == 4);
  CHECK_FALSE(f.DecRef(a, blocks).ok());
}

TEST_CASE("A repeated lookup under its key does not hold the prefix twice") {
  CacheFixture f(4);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> blocks = f.Cache(a, "ab");
  const auto first = f.TryLookup(a, KeysOf("ab"), /*acquire=*/true, /*key=*/3);
  CHECK(*f.TryLookup(a, KeysOf("ab"), /*acquire=*/true, /*key=*/3) == *first);
  f.Drop(a, blocks);
  CHECK(f.CachedBlocks() == 2);
  CheckError(f.TryLookup(a, KeysOf("ab"), /*acquire=*/true, /*key=*/3).status(),
             absl::StatusCode::kFailedPrecondition, Reason::kKeySpent);
  // A hint is looked up afresh.
  f.Evict(a, {blocks[1]});
  CHECK(f.TryLookup(a, KeysOf("ab"), /*acquire=*/false, /*key=*/3)->blocks.size() == 1);
}

TEST_CASE("Answers that name the same blocks over and over make room for each other") {
  constexpr uint32_t kLength = 4'096;
  CacheFixture f(kLength);
  const SessionId a = f.OpenModel(1);
  PrefixKeys prefix;
  prefix.root = KeyOf('A', "");
  for (uint32_t i = 0; i < kLength; ++i) prefix.blocks.push_back(KeyOf('A', std::to_string(i)));
  f.Publish(a, prefix, f.Alloc(a, kLength));
  for (uint64_t key = 1; key <= 64; ++key) {
    REQUIRE(f.TryLookup(a, prefix, /*acquire=*/true, key)->blocks.size() == kLength);
  }
  // They may name twice what it holds, and 16,384: six.
  for (uint64_t key = 1; key <= 58; ++key) {
    CheckError(f.TryLookup(a, prefix, /*acquire=*/true, key).status(),
               absl::StatusCode::kFailedPrecondition, Reason::kKeySpent);
  }
  for (uint64_t key = 59; key <= 64; ++key) {
    CHECK(f.TryLookup(a, prefix, /*acquire=*/true, key)->blocks.size() == kLength);
  }
}

TEST_CASE("A cached block is held by whoever names its generation") {
  CacheFixture f(4);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> blocks = f.Cache(a, "a");
  CHECK(f.StateOf(blocks[0]) == BlockState::kCached);
  CHECK(f.IncRef(a, blocks) == absl::OkStatus());
  CHECK(f.StateOf(blocks[0]) == BlockState::kHeld);
  CHECK(f.Find(a, "a") == blocks);
}

TEST_CASE("Cached blocks that others are guaranteed are not taken by lookups nor by IncRef") {
  CacheFixture f(4);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> blocks = f.Cache(a, "abc");
  f.Open(2, {.process = ProcessId{2}, .guaranteed_blocks = 3});
  CheckFull(f.TryLookup(a, KeysOf("ab"), /*acquire=*/true).status(), 1);
  CheckFull(f.IncRef(a, {blocks[0], blocks[1]}), 1);
  CHECK(f.CachedBlocks() == 3);
  CHECK(f.Hold(a, "a").size() == 1);
  // Those that somebody holds are shared freely.
  const SessionId c = f.OpenModel(3);
  CHECK(f.Hold(c, "a").size() == 1);
}

TEST_CASE("A miss is no error, and names the parent that was given") {
  CacheFixture f(4);
  const SessionId a = f.OpenModel(1);
  f.Cache(a, "a");
  const auto miss = f.TryLookup(a, KeysOf("x"), /*acquire=*/true);
  CHECK(miss->blocks.empty());
  CHECK_FALSE(miss->last_key.has_value());
  CHECK(f.TryLookup(a, KeysOf("x", "a"), /*acquire=*/true)->last_key == KeyOf('A', "a"));
}

TEST_CASE("Lookups keep the limits of references and sharers") {
  LedgerOptions options = test::OptionsOf(4);
  options.limits.max_references_per_block = 2;
  options.limits.max_sharers = 1;
  CacheFixture f(options);
  const SessionId a = f.OpenModel(1);
  const SessionId b = f.OpenModel(2);
  const SessionId c = f.OpenModel(3);
  f.Cache(a, "ab");
  f.Hold(a, "a");
  const auto limit = [&](const SessionId& session, const std::string& text) {
    CheckError(f.TryLookup(session, KeysOf(text), /*acquire=*/true).status(),
               absl::StatusCode::kResourceExhausted, Reason::kLimit);
  };
  f.Hold(b, "a");
  limit(c, "a");
  f.Drop(a, f.Find(a, "a"));
  f.Drop(b, f.Find(b, "a"));
  f.Hold(a, "ab");
  limit(b, "ab");
  CHECK(f.Hold(b, "a").size() == 1);
}

TEST_CASE("A pinned block that its reader let go is found, and held again") {
  CacheFixture f(2);
  const SessionId a = f.OpenModel(1);
  const std::vector<BlockRef> blocks = f.Alloc(a, 1);
  f.Publish(a, KeysOf("a"), blocks);
  const PendingId pin = f.Pin(a, blocks, {}, /*granted=*/true);
  f.Drop(a, blocks);
  CHECK(f.StateOf(blocks[0]) == BlockState::kQuarantined);
  CHECK(f.Hold(a, "a") == blocks);
  CHECK(f.StateOf(blocks[0]) == BlockState::kHeld);
  f.Drop(a, blocks);
  f.Unpin(pin);
  CHECK(f.StateOf(blocks[0]) == BlockState::kCached);
}

}  // namespace
}  // namespace kvpool
