#include "core/ledger/prefix_watches.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/watched_index.h"
#include "tests/unit/ledger/cache_fixture.h"

namespace kvpool::test {
namespace {

using Kind = PrefixEvent::Kind;
using Events = std::vector<PrefixEvent>;

// A ledger of 64 blocks that is watched.
class WatchFixture : public CacheFixture {
 public:
  explicit WatchFixture(uint32_t max_logged_changes = 1'000)
      : CacheFixture(WithChanges(max_logged_changes)) {}

  WatchId Watch(const WatchCall& call = {}) { return ledger.watches().Open(call); }
  // A watch that has read its snapshot.
  WatchId WatchOn(const WatchCall& call = {}) {
    const WatchId id = Watch(call);
    ReadAll(id);
    return id;
  }
  Events Read(WatchId id, size_t max_steps, WatchProgress expected) {
    Events events;
    CHECK(ledger.watches().Read(id, max_steps, events) == expected);
    return events;
  }
  Events ReadAll(WatchId id) { return Read(id, 10'000, WatchProgress::kCaughtUp); }

 private:
  static LedgerOptions WithChanges(uint32_t max_logged_changes) {
    LedgerOptions options = OptionsOf(64);
    options.limits.max_logged_changes = max_logged_changes;
    return options;
  }
};

std::vector<Kind> KindsOf(const Events& events) {
  std::vector<Kind> kinds;
  for (const PrefixEvent& event : events) kinds.push_back(event.kind);
  return kinds;
}

TEST_CASE("A snapshot begins with Cleared and ends with the number from which to go on") {
  WatchFixture fixture;
  const SessionId session = fixture.OpenModel(1);
  const auto blocks = fixture.Cache(session, "abc");
  const Events events = fixture.ReadAll(fixture.Watch());
  REQUIRE(KindsOf(events) == std::vector<Kind>{Kind::kCleared, Kind::kStored, Kind::kSnapshotEnd});
  CHECK(events[0].sequence == 0);
  CHECK_FALSE(events[0].tenant.has_value());
  CHECK(events[1].sequence == 0);
  CHECK(events[1].keys == KeysOf("abc").blocks);
  CHECK(events[1].blocks == blocks);
  CHECK_FALSE(events[1].parent.has_value());
  CHECK(events[1].tenant == "acme");
  CHECK(events[1].model_id == "llama");
  CHECK(events[2].sequence == 3);
}

TEST_CASE("A run that was published is one event, numbered as its last change") {
  WatchFixture fixture;
  const SessionId session = fixture.OpenModel(1);
  fixture.Cache(session, "ab");
  const WatchId id = fixture.WatchOn();
  const auto blocks = fixture.Alloc(session, 4);
  const std::vector<uint32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  const PrefixKeys keys = KeysOf("abcd");
  REQUIRE(fixture.ledger
              .Publish({.caller = fixture.Of(session),
                        .prefix = &keys,
                        .adapter = "lora",
                        .blocks = blocks,
                        .tokens = tokens},
                       fixture.now)
              .ok());
  const Events events = fixture.ReadAll(id);
  REQUIRE(events.size() == 1);
  CHECK(events[0].sequence == 4);
  CHECK(events[0].keys == KeysOf("cd", "ab").blocks);
  CHECK(events[0].parent == KeysOf("ab").blocks.back());
  CHECK(events[0].adapter == "lora");
  CHECK(events[0].tokens.empty());
}

TEST_CASE("Tokens are told to those who ask, of the blocks that were published") {
  WatchFixture fixture;
  const SessionId session = fixture.OpenModel(1);
  fixture.Cache(session, "a");
  const WatchId id = fixture.WatchOn({.with_tokens = true});
  const PrefixKeys keys = KeysOf("abc");
  const std::vector<uint32_t> tokens = {1, 2, 3, 4, 5, 6};
  REQUIRE(fixture.ledger
              .Publish({.caller = fixture.Of(session),
                        .prefix = &keys,
                        .blocks = fixture.Alloc(session, 3),
                        .tokens = tokens},
                       fixture.now)
              .ok());
  const Events events = fixture.ReadAll(id);
  REQUIRE(events.size() == 1);
  CHECK(events[0].keys.size() == 2);
  CHECK(events[0].tokens == std::vector<uint32_t>{3, 4, 5, 6});
  // A snapshot has none.
  for (const PrefixEvent& event : fixture.ReadAll(fixture.Watch({.with_tokens = true}))) {
    CHECK(event.tokens.empty());
  }
}

TEST_CASE("Blocks that are evicted are Removed, leaves first") {
  WatchFixture fixture;
  const SessionId session = fixture.OpenModel(1);
  const auto blocks = fixture.Cache(session, "abc");
  const WatchId id = fixture.WatchOn();
  fixture.Evict(session, {blocks[1], blocks[2]});
  const Events events = fixture.ReadAll(id);
  REQUIRE(events.size() == 1);
  CHECK(events[0].kind == Kind::kRemoved);
  CHECK(events[0].sequence == 5);
  const std::vector<PrefixKey> keys = KeysOf("abc").blocks;
  CHECK(events[0].keys == std::vector<PrefixKey>{keys[2], keys[1]});
}

TEST_CASE("A reset is one Cleared, and none where nothing was findable") {
  WatchFixture fixture;
  const SessionId session = fixture.OpenModel(1);
  const WatchId id = fixture.WatchOn();
  fixture.Cache(session, "abc");
  fixture.ReadAll(id);
  CHECK(fixture.ledger.ResetPrefixes("acme", fixture.now) == 3);
  CHECK(fixture.ledger.ResetPrefixes("acme", fixture.now) == 0);
  CHECK(fixture.ledger.ResetPrefixes(std::nullopt, fixture.now) == 0);
  while (fixture.ledger.Reclaim(1, fixture.now)) {
  }
  Events events = fixture.ReadAll(id);
  REQUIRE(KindsOf(events) == std::vector<Kind>{Kind::kCleared});
  CHECK(events[0].tenant == "acme");
  fixture.Cache(session, "ab");
  fixture.ReadAll(id);
  CHECK(fixture.ledger.ResetPrefixes(std::nullopt, fixture.now) == 2);
  events = fixture.ReadAll(id);
  REQUIRE(KindsOf(events) == std::vector<Kind>{Kind::kCleared});
  CHECK_FALSE(events[0].tenant.has_value());
}

TEST_CASE("A publish that fails or finds all known is no change") {
  WatchFixture fixture;
  const SessionId session = fixture.OpenModel(1);
  fixture.Cache(session, "ab");
  const WatchId id = fixture.WatchOn();
  const auto blocks = fixture.Alloc(session, 2);
  CHECK_FALSE(fixture.TryPublish(session, KeysOf("xyz"), blocks).ok());
  CHECK(fixture.Publish(session, KeysOf("ab"), blocks).published == 0);
  CHECK(fixture.ReadAll(id).empty());
  CHECK(fixture.ledger.watches().sequence(id) == 2);
}

TEST_CASE("A watcher goes on after a number that the log has, without a snapshot") {
  WatchFixture fixture;
  const SessionId session = fixture.OpenModel(1);
  fixture.Cache(session, "ab");
  fixture.Cache(session, "x");
  const Events events = fixture.ReadAll(fixture.Watch({.after = 2}));
  REQUIRE(events.size() == 1);
  CHECK(events[0].sequence == 3);
  CHECK(events[0].keys == KeysOf("x").blocks);
  CHECK(fixture.ReadAll(fixture.Watch({.after = 3})).empty());
  // One from the future is of another ledger.
  CHECK(fixture.ReadAll(fixture.Watch({.after = 4})).front().kind == Kind::kCleared);
}

TEST_CASE("A watcher goes on from just before the oldest change, and not from before that") {
  WatchFixture fixture(/*max_logged_changes=*/4);
  const SessionId session = fixture.OpenModel(1);
  fixture.Cache(session, "abcdef");
  CHECK(fixture.ReadAll(fixture.Watch({.after = 2})).front().sequence == 6);
  CHECK(fixture.ReadAll(fixture.Watch({.after = 1})).front().kind == Kind::kCleared);
}

TEST_CASE("A watcher that the log has gone past is told to resync, and then nothing") {
  WatchFixture fixture(/*max_logged_changes=*/4);
  const SessionId session = fixture.OpenModel(1);
  const WatchId id = fixture.WatchOn();
  fixture.Cache(session, "abcd");
  const WatchId slow = fixture.WatchOn();
  CHECK(fixture.ReadAll(id).size() == 1);
  fixture.Cache(session, "vwxyz");
  for (const WatchId lost : {id, slow}) {
    const Events events = fixture.Read(lost, 10, WatchProgress::kOver);
    REQUIRE(KindsOf(events) == std::vector<Kind>{Kind::kResync});
    CHECK(events[0].sequence == 4);
    CHECK(fixture.Read(lost, 10, WatchProgress::kOver).empty());
    // Nothing is missed by who goes on after that number.
    const WatchId again = fixture.Watch({.after = events[0].sequence});
    CHECK(fixture.ReadAll(again).front().kind == Kind::kCleared);
  }
}

TEST_CASE("A tenant is told of its own, with gaps, and an unknown one of nothing") {
  WatchFixture fixture;
  const SessionId session = fixture.OpenModel(1);
  const WatchId own = fixture.Watch({.tenant = "acme"});
  const WatchId other = fixture.Watch({.tenant = "other"});
  fixture.Cache(session, "ab");
  Events events = fixture.ReadAll(own);
  REQUIRE(KindsOf(events) == std::vector<Kind>{Kind::kCleared, Kind::kStored, Kind::kSnapshotEnd});
  CHECK(events[0].tenant == "acme");
  events = fixture.ReadAll(other);
  REQUIRE(KindsOf(events) == std::vector<Kind>{Kind::kCleared, Kind::kSnapshotEnd});
  CHECK(events[0].tenant == "other");
  CHECK(events[1].sequence == 2);
  // A reset of all is to each a reset of its own; one of a tenant is that tenant's alone.
  fixture.ledger.ResetPrefixes("acme", fixture.now);
  CHECK(fixture.ReadAll(other).empty());
  fixture.Cache(session, "ab");
  fixture.ledger.ResetPrefixes(std::nullopt, fixture.now);
  events = fixture.ReadAll(other);
  REQUIRE(KindsOf(events) == std::vector<Kind>{Kind::kCleared});
  CHECK(events[0].tenant == "other");
}

TEST_CASE("A snapshot's entries and the changes meanwhile come parents first") {
  WatchFixture fixture;
  const SessionId session = fixture.OpenModel(1);
  fixture.Cache(session, "abcd");
  const WatchId id = fixture.Watch();
  WatchedIndex index;
  const auto read = [&](size_t steps, WatchProgress expected) {
    for (const PrefixEvent& event : fixture.Read(id, steps, expected)) {
      CHECK(index.Apply(event).empty());
    }
  };
  read(2, WatchProgress::kMore);
  CHECK(index.entries().size() == 2);
  // After a parent that the snapshot has not come to: it comes in its turn.
  fixture.Publish(session, KeysOf("ef", "abcd"), fixture.Alloc(session, 2));
  read(3, WatchProgress::kMore);
  CHECK(index.entries().size() == 3);
  read(10'000, WatchProgress::kCaughtUp);
  CHECK(index.is_complete());
  CHECK(index.entries().size() == 6);
}

TEST_CASE("Each watcher that had caught up is told once that there is more") {
  WatchFixture fixture;
  const SessionId session = fixture.OpenModel(1);
  const WatchId first = fixture.WatchOn();
  const WatchId second = fixture.WatchOn();
  const WatchId busy = fixture.Watch();
  fixture.Take<WatchReady>();
  fixture.Cache(session, "a");
  const auto ready = fixture.Take<WatchReady>();
  REQUIRE(ready.size() == 2);
  CHECK(ready[0].id == first);
  CHECK(ready[1].id == second);
  fixture.Cache(session, "b");
  CHECK(fixture.Take<WatchReady>().empty());
  fixture.ReadAll(busy);
  fixture.ReadAll(second);
  fixture.ledger.watches().Close(second);
  fixture.Cache(session, "c");
  const auto again = fixture.Take<WatchReady>();
  REQUIRE(again.size() == 1);
  CHECK(again[0].id == busy);
}

TEST_CASE("Long runs and long lists of removed keys come in several events") {
  LedgerOptions options = OptionsOf(3'000);
  CacheFixture fixture(options);
  const SessionId session = fixture.OpenModel(1);
  const auto blocks = fixture.Alloc(session, 2'500);
  PrefixKeys keys = KeysOf("");
  for (uint32_t i = 0; i < 2'500; ++i) {
    PrefixKey key = keys.root;
    key.bytes[30] = static_cast<uint8_t>(i >> 8);
    key.bytes[31] = static_cast<uint8_t>(i);
    key.bytes[29] = 1;
    keys.blocks.push_back(key);
  }
  fixture.Publish(session, keys, blocks);
  fixture.Drop(session, blocks);
  fixture.Evict(session, blocks);
  Events events;
  const WatchId id = fixture.ledger.watches().Open({.after = 0});
  CHECK(fixture.ledger.watches().Read(id, 10'000, events) == WatchProgress::kCaughtUp);
  REQUIRE(events.size() == 6);
  WatchedIndex index;
  for (const PrefixEvent& event : events) {
    CHECK(event.keys.size() <= PrefixWatches::kMaxKeysAnEvent);
    CHECK(index.Apply(event).empty());
  }
  CHECK(index.sequence() == 5'000);
  CHECK(index.entries().empty());
}

}  // namespace
}  // namespace kvpool::test
