// Those who watch prefixes, on a real daemon: what they rebuild, and what they cost.
#include <atomic>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/integration/support/node.h"
#include "tests/integration/support/prefix_user.h"
#include "tests/support/catch.h"
#include "tests/support/eventually.h"
#include "tests/support/random.h"
#include "tests/support/watched_index.h"

namespace kvpool::test {
namespace {

using Event = v1::WatchPrefixesResponse;
using BlockSet = std::set<std::pair<uint32_t, uint64_t>>;  // Ids and generations.

v1::WatchPrefixesRequest OfPool() {
  v1::WatchPrefixesRequest request;
  request.set_pool("p");
  return request;
}

v1::WatchPrefixesRequest After(const Event& event) {
  v1::WatchPrefixesRequest request = OfPool();
  request.set_daemon_epoch(event.daemon_epoch());
  request.set_after_sequence(event.sequence());
  return request;
}

PrefixEvent ToEvent(const Event& message) {
  PrefixEvent event = {.sequence = message.sequence()};
  if (message.has_stored()) {
    const Event::Stored& stored = message.stored();
    event.kind = PrefixEvent::Kind::kStored;
    for (const std::string& key : stored.keys()) event.keys.push_back(PrefixKey::FromBytes(key));
    for (int i = 0; i < stored.blocks().block_ids_size(); ++i) {
      event.blocks.push_back({.block = BlockId{stored.blocks().block_ids(i)},
                              .generation = Generation{stored.blocks().generations(i)}});
    }
    if (!stored.parent_key().empty()) event.parent = PrefixKey::FromBytes(stored.parent_key());
    event.tenant = stored.tenant();
    event.model_id = stored.model_id();
    event.adapter = stored.adapter();
  } else if (message.has_removed()) {
    event.kind = PrefixEvent::Kind::kRemoved;
    for (const std::string& key : message.removed().keys()) {
      event.keys.push_back(PrefixKey::FromBytes(key));
    }
  } else if (message.has_cleared()) {
    event.kind = PrefixEvent::Kind::kCleared;
    if (!message.cleared().tenant().empty()) event.tenant = message.cleared().tenant();
  } else if (message.has_snapshot_end()) {
    event.kind = PrefixEvent::Kind::kSnapshotEnd;
  } else {
    event.kind = PrefixEvent::Kind::kResync;
  }
  return event;
}

// Reads on until the snapshot's end.
Event SnapshotEnd(RawClient::Watch& watch) {
  while (true) {
    std::optional<Event> event = watch.Next();
    REQUIRE(event.has_value());
    if (event->has_snapshot_end()) return *std::move(event);
  }
}

// A stream, and a thread that rebuilds the index from it.
class Follower {
 public:
  explicit Follower(RawClient& client)
      : watch_(client.WatchPrefixes(OfPool())), thread_([this] { Run(); }) {}
  ~Follower() { Stop(); }

  // Waits until it has been told that number.
  bool HasReached(uint64_t sequence) {
    return Eventually([&] { return reached_ >= sequence || has_ended_; }) && !has_ended_;
  }
  void Stop() {
    if (!thread_.joinable()) return;
    watch_->Break();
    thread_.join();
  }
  // Once it is stopped.
  const WatchedIndex& index() const { return index_; }
  const std::string& wrong() const { return wrong_; }

 private:
  void Run() {
    while (const std::optional<Event> event = watch_->Next()) {
      if (!event->has_heartbeat() && wrong_.empty()) wrong_ = index_.Apply(ToEvent(*event));
      if (index_.is_complete()) reached_ = event->sequence();
    }
    has_ended_ = true;
  }

  const std::unique_ptr<RawClient::Watch> watch_;
  WatchedIndex index_;
  std::string wrong_;
  std::atomic<uint64_t> reached_ = 0;
  std::atomic<bool> has_ended_ = false;
  std::jthread thread_;
};

// Publishes and lets go what it allocates, and evicts: an engine in a hurry. Fails quietly: what it
// asks for is often not to be had.
void Churn(RawClient& client, uint64_t seed, int rounds) {
  Random random(seed);
  v1::OpenSessionRequest open;
  open.set_model_id("llama");
  const auto session = RawSession::Open(client, open);
  if (!session.ok()) return;
  for (int round = 0; round < rounds; ++round) {
    std::vector<uint32_t> numbers;
    for (uint32_t i = 1 + random.Below(6); i > 0; --i) numbers.push_back(random.Below(4));
    const auto blocks = (*session)->Alloc(static_cast<uint32_t>(numbers.size()));
    if (!blocks.ok()) continue;
    v1::PublishRequest publish;
    publish.set_session_id((*session)->id());
    *publish.mutable_prefix() = BlocksOf(numbers);
    *publish.mutable_blocks() = *blocks;
    client.Publish(publish).IgnoreError();
    (*session)->DecRef(*blocks).IgnoreError();
    if (!random.OneIn(4)) continue;
    v1::EvictRequest evict;
    evict.set_session_id((*session)->id());
    evict.set_count(1 + random.Below(5));
    client.Evict(evict).IgnoreError();
  }
  // The last one dies with what it holds.
  if (random.OneIn(2)) (*session)->Close().IgnoreError();
}

BlockSet PublishedBlocks(Node& node) {
  BlockSet blocks;
  v1::ListBlocksRequest request;
  request.set_pool("p");
  for (const v1::BlockStatus& block : Value(node.eyes().ListBlocks(request))) {
    if (block.published()) blocks.emplace(block.block_id(), block.generation());
  }
  return blocks;
}

BlockSet BlocksIn(const WatchedIndex& index) {
  BlockSet blocks;
  for (const auto& [key, entry] : index.entries()) {
    blocks.emplace(ToIndex(entry.block.block), static_cast<uint64_t>(entry.block.generation));
  }
  return blocks;
}

TEST_CASE("An index rebuilt from the stream is the daemon's, whatever happens meanwhile") {
  const uint64_t seed = Seed();
  CAPTURE(seed);
  Node node(/*num_blocks=*/48);
  Follower first(node.eyes());
  std::vector<std::unique_ptr<Follower>> later;
  {
    std::vector<std::jthread> workers;
    std::atomic<int> running = 3;
    for (uint64_t i = 0; i < 3; ++i) {
      workers.emplace_back([&, i, client = node.Connect()] {
        Churn(*client, seed + i, 400);
        --running;
      });
    }
    // Snapshots in the midst of it, and resets.
    while (running > 0) {
      CHECK(Said(node.eyes().ResetPrefixes("p")) == "OK");
      if (later.size() < 8) later.push_back(std::make_unique<Follower>(node.eyes()));
      REQUIRE(Eventually([&, before = node.Pool().published_blocks()] {
        return running == 0 || node.Pool().published_blocks() != before;
      }));
    }
  }
  PrefixUser user(*node.Connect());
  user.Cache(BlocksOf({100}));
  const uint64_t last = SnapshotEnd(*node.eyes().WatchPrefixes(OfPool())).sequence();
  const BlockSet published = PublishedBlocks(node);
  CHECK(published.size() >= 1);
  const auto check = [&](Follower& follower) {
    CHECK(follower.HasReached(last));
    follower.Stop();
    CHECK(follower.wrong().empty());
    CHECK(BlocksIn(follower.index()) == published);
    CHECK(follower.index().entries().size() == published.size());
  };
  check(first);
  for (const auto& follower : later) check(*follower);
}

TEST_CASE("Whoever comes back is told exactly what it missed") {
  Node node(/*num_blocks=*/16);
  RawClient& client = *node.Connect();
  Event last = SnapshotEnd(*client.WatchPrefixes(OfPool()));
  {
    PrefixUser user(client);
    for (uint32_t i = 0; i < 100; ++i) user.Cache(BlocksOf({i, i + 1, i + 2}));
    CHECK(user.session().Close().ok());
  }
  const uint64_t end = SnapshotEnd(*client.WatchPrefixes(OfPool())).sequence();
  CHECK(end >= last.sequence() + 300 + 284);
  // In two goes.
  for (const uint64_t stop : {last.sequence() + 200, end}) {
    const auto watch = client.WatchPrefixes(After(last));
    while (last.sequence() < stop) {
      const std::optional<Event> event = watch->Next();
      REQUIRE(event.has_value());
      REQUIRE((event->has_stored() || event->has_removed()));
      const int keys = event->stored().keys_size() + event->removed().keys_size();
      CHECK(event->sequence() == last.sequence() + static_cast<uint64_t>(keys));
      last = *event;
    }
  }
  CHECK(last.sequence() == end);
}

TEST_CASE("A subscriber that stalls costs little, holds nobody up, and is told to resync") {
  Node node(/*num_blocks=*/512);
  RawClient& client = *node.Connect();
  PrefixUser user(client);
  const auto stalled = node.eyes().WatchPrefixes(OfPool());
  SnapshotEnd(*stalled);
  std::vector<uint32_t> seeds(512);
  std::iota(seeds.begin(), seeds.end(), 1);
  const v1::Prefix prefix = BlocksOf(seeds);
  const auto churn = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      const v1::Blocks blocks = user.Cache(prefix);
      REQUIRE(Said(user.TryEvict(0, blocks)) == "OK");
    }
  };
  churn(20);
  const uint64_t before = node.daemon().AnonymousBytes();
  // Some 11 MB of events: more than the 4 MiB that gRPC takes for who does not read.
  churn(300);
  if (!kIsSanitized) CHECK(node.daemon().AnonymousBytes() < before + (16U << 20));
  std::optional<Event> last;
  while (std::optional<Event> event = stalled->Next()) {
    REQUIRE_FALSE(event->has_heartbeat());  // It would have caught up.
    last = std::move(event);
  }
  REQUIRE(last.has_value());
  CHECK(last->has_resync());
  CHECK(Said(stalled->End()) == "OK");
  // And begins anew, also where it goes on after what it heard last.
  const auto again = node.eyes().WatchPrefixes(After(*last));
  const std::optional<Event> first = again->Next();
  REQUIRE(first.has_value());
  CHECK(first->has_cleared());
  CHECK(SnapshotEnd(*again).sequence() >= last->sequence() + 1'000);
}

TEST_CASE("Fifty subscribers that come and go leave nothing behind") {
  Node node(/*num_blocks=*/8);
  {
    RawClient& client = *node.Connect();
    PrefixUser user(client);
    for (uint32_t i = 0; i < 50; ++i) {
      const auto watch = client.WatchPrefixes(OfPool());
      if (i % 2 == 0) SnapshotEnd(*watch);
      user.Cache(BlocksOf({i}));
    }
    CHECK(user.session().Close().ok());
  }
  CHECK(Said(node.eyes().ResetPrefixes("p")) == "OK");
  node.CheckCounts();
  node.CheckAllIsBack();
}

TEST_CASE("A stream with nothing to tell beats, and ends when the daemon drains") {
  Node node(/*num_blocks=*/4);
  const auto watch = node.eyes().WatchPrefixes(OfPool());
  const Event end = SnapshotEnd(*watch);
  const std::optional<Event> beat = watch->Next();
  REQUIRE(beat.has_value());
  CHECK(beat->has_heartbeat());
  CHECK(beat->sequence() == end.sequence());
  CHECK(node.daemon().Stop() == 0);
  CHECK(Said(watch->End()) == "UNAVAILABLE DRAINING");
}

}  // namespace
}  // namespace kvpool::test
