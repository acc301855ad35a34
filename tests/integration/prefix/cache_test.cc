// The prefix cache in the field: what is found, held, evicted, reset, and who dies meanwhile.
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/support/node.h"
#include "tests/integration/support/prefix_user.h"
#include "tests/support/catch.h"

namespace kvpool::test {
namespace {

// Leaves nothing cached, so that all is back.
void Leave(Node& node) {
  CHECK(Said(node.eyes().ResetPrefixes("p")) == "OK");
  node.CheckCounts();
  node.CheckAllIsBack();
}

Node LruNode(uint32_t num_blocks, const std::string& more = "") {
  return Node({.pools_json = OnePool(num_blocks, R"(, "eviction_policy": "leaf_lru")" + more)});
}

TEST_CASE("What a worker published outlives it, and the next one uses it in place") {
  Node node(/*num_blocks=*/8);
  RawClient* const client = node.Connect();
  v1::Blocks published;
  {
    PrefixUser first(*client);
    published = first.PublishNew(BlocksOf({1, 2, 3}));
    // Killed: its stream breaks, and it vouches for nothing.
    REQUIRE(first.session().Attach().ok());
    REQUIRE(node.eyes().TerminateSession(first.session().id(), /*release_claims=*/false).ok());
  }
  CHECK(node.Pool().cached_blocks() == 3);
  PrefixUser second(*client);
  CHECK(IdsOf(second.Hold(BlocksOf({1, 2, 3, 4}))) == IdsOf(published));
  CHECK(node.Pool().held_blocks() == 3);
  node.CheckCounts();
  CHECK(second.session().Close().ok());
  CHECK(node.Pool().cached_blocks() == 3);
  Leave(node);
}

TEST_CASE("A hint whose blocks were evicted and given away gives no reference to them") {
  Node node(/*num_blocks=*/2);
  RawClient* const client = node.Connect();
  PrefixUser a(*client);
  PrefixUser b(*client);
  a.Cache(BlocksOf({1, 2}));
  const auto hint = a.TryLookup(BlocksOf({1, 2}), /*acquire=*/false);
  REQUIRE(hint.ok());
  REQUIRE(b.session().Alloc(2).ok());
  CHECK(Said(a.session().IncRef(hint->blocks())) == "FAILED_PRECONDITION STALE_BLOCK");
  CHECK(b.session().Close().ok());
  CHECK(a.session().Close().ok());
  Leave(node);
}

TEST_CASE("Acquire takes its new blocks from what it does not find, not from its own hits") {
  Node node = LruNode(4);
  RawClient* const client = node.Connect();
  PrefixUser user(*client);
  const v1::Blocks hits = user.Cache(BlocksOf({0, 1}));
  const v1::Blocks others = user.Cache(BlocksOf({2, 3}));
  const auto acquired = user.TryAcquire(BlocksOf({0, 1, 8, 9}), 4);
  REQUIRE(Said(acquired) == "OK");
  CHECK(acquired->matched_blocks() == 2);
  CHECK(IdsOf(First(acquired->blocks(), 2)) == IdsOf(hits));
  std::vector<uint32_t> fresh = {acquired->blocks().block_ids(2), acquired->blocks().block_ids(3)};
  std::ranges::sort(fresh);
  CHECK(fresh == IdsOf(others));
  CHECK(user.session().Close().ok());
  Leave(node);
}

TEST_CASE("A chain let go in one call, in any order, loses its tail first") {
  for (const bool reversed : {false, true}) {
    Node node = LruNode(3);
    RawClient* const client = node.Connect();
    PrefixUser user(*client);
    v1::Blocks blocks = user.PublishNew(BlocksOf({1, 2, 3}));
    const std::vector<uint32_t> chain = IdsOf(blocks);
    if (reversed) {
      std::reverse(blocks.mutable_block_ids()->begin(), blocks.mutable_block_ids()->end());
      std::reverse(blocks.mutable_generations()->begin(), blocks.mutable_generations()->end());
    }
    REQUIRE(user.session().DecRef(blocks).ok());
    for (int repeat = 0; repeat < 20; ++repeat) {
      const auto taken = user.session().Alloc(1);
      REQUIRE(Said(taken) == "OK");
      CHECK(taken->block_ids(0) == chain[2]);
      CHECK(user.Find(BlocksOf({1, 2, 3})) == std::vector<uint32_t>{chain[0], chain[1]});
      const auto again = user.TryPublish(BlocksOf({1, 2, 3}), *taken, /*skip=*/2);
      REQUIRE(Said(again) == "OK");
      REQUIRE(user.session().DecRef(*taken).ok());
    }
    CHECK(user.session().Close().ok());
    Leave(node);
  }
}

TEST_CASE("After each eviction what is left of a chain is a prefix of it") {
  Node node = LruNode(8);
  RawClient* const client = node.Connect();
  PrefixUser user(*client);
  const v1::Blocks p = user.Cache(BlocksOf({1, 2, 3, 4}));
  const v1::Blocks q = user.Cache(BlocksOf({7}));
  REQUIRE(user.session().DecRef(user.Hold(BlocksOf({7}))).ok());
  std::vector<uint32_t> left = IdsOf(p);
  while (!left.empty()) {
    const auto evicted = user.TryEvict(1);
    REQUIRE(Said(evicted) == "OK");
    CHECK(evicted->block_ids(0) == left.back());
    left.pop_back();
    CHECK(user.Find(BlocksOf({1, 2, 3, 4})) == left);
    CHECK(user.Find(BlocksOf({7})) == IdsOf(q));
  }
  CHECK(user.session().Close().ok());
  Leave(node);
}

TEST_CASE("Exactly as many blocks go as are asked for, though most are held") {
  Node node = LruNode(100);
  RawClient* const client = node.Connect();
  PrefixUser user(*client);
  for (uint32_t i = 0; i < 100; ++i) {
    if (i < 90) {
      user.PublishNew(BlocksOf({i}));
    } else {
      user.Cache(BlocksOf({i}));
    }
  }
  CHECK(user.session().Alloc(1).ok());
  CHECK(node.Pool().published_blocks() == 99);
  const auto evicted = user.TryEvict(5);
  REQUIRE(Said(evicted) == "OK");
  CHECK(evicted->freed() == 5);
  CHECK(node.Pool().published_blocks() == 94);
  CHECK(node.Pool().cached_blocks() == 4);
  CHECK(user.session().Close().ok());
  Leave(node);
}

TEST_CASE("When all blocks are cached, all can be had at the first try") {
  Node node(/*num_blocks=*/64);
  RawClient* const client = node.Connect();
  PrefixUser user(*client);
  for (uint32_t i = 0; i < 16; ++i) user.Cache(BlocksOf({i, 100, 101, 102}));
  CHECK(node.FreeBlocks() == 0);
  CHECK(node.Pool().cached_blocks() == 64);
  CHECK(Said(user.session().Alloc(64)) == "OK");
  CHECK(node.Pool().published_blocks() == 0);
  CHECK(user.session().Close().ok());
  Leave(node);
}

TEST_CASE("A published block is not written to, filled or published under another prefix") {
  Node node(/*num_blocks=*/4);
  RawClient* const client = node.Connect();
  PrefixUser user(*client);
  const v1::Blocks blocks = user.PublishNew(BlocksOf({1}));
  const uint32_t id = blocks.block_ids(0);
  const std::string sealed = "FAILED_PRECONDITION SEALED";
  CHECK(Said(user.session().Write(id, 0, v1::SIDE_K, 0, "x")) == sealed);
  CHECK(Said(user.session().Fill(blocks, v1::FILL_ZERO)) == sealed);
  const v1::Blocks source = *user.session().Alloc(1);
  CHECK(Said(user.session().Copy(source, blocks)) == sealed);
  CHECK(Said(user.TryPublish(BlocksOf({2}), blocks)) == sealed);
  CHECK(user.session().Copy(blocks, source).ok());
  CHECK(user.session().Close().ok());
  Leave(node);
}

TEST_CASE("A publish of a session that is gone publishes nothing") {
  Node node(/*num_blocks=*/4);
  RawClient* const client = node.Connect();
  PrefixUser user(*client);
  const v1::Blocks blocks = *user.session().Alloc(1);
  CHECK(user.session().Close().ok());
  CHECK(Said(user.TryPublish(BlocksOf({1}), blocks)) == "NOT_FOUND SESSION_UNKNOWN");
  PrefixUser next(*client);
  CHECK(next.Find(BlocksOf({1})).empty());
  CHECK(next.session().Close().ok());
  Leave(node);
}

// Field cases 15 and 16.
TEST_CASE("A beginning that two sequences share is cached once, and counted once") {
  Node node(/*num_blocks=*/8);
  RawClient* const client = node.Connect();
  PrefixUser first(*client);
  PrefixUser second(*client);
  first.PublishNew(BlocksOf({1, 2, 3}));
  const auto acquired = second.TryAcquire(BlocksOf({1, 2, 9}), 3);
  REQUIRE(Said(acquired) == "OK");
  CHECK(acquired->matched_blocks() == 2);
  REQUIRE(Said(second.TryPublish(BlocksOf({1, 2, 9}), acquired->blocks())) == "OK");
  CHECK(node.Pool().held_blocks() == 4);
  CHECK(first.session().Close().ok());
  CHECK(node.Pool().held_blocks() == 3);
  CHECK(node.Pool().cached_blocks() == 1);
  CHECK(second.session().Close().ok());
  CHECK(node.Pool().cached_blocks() == 4);
  CHECK(node.FreeBlocks() == 4);
  Leave(node);
}

// Field case 13.
TEST_CASE("A block that is evicted while it is held stays its holder's, bytes and all") {
  Node node(/*num_blocks=*/4);
  RawClient* const client = node.Connect();
  PrefixUser holder(*client);
  PrefixUser other(*client);
  const v1::Blocks block = *holder.session().Alloc(1);
  const std::string bytes(64, '\x5A');
  REQUIRE(Said(holder.session().Write(block.block_ids(0), 0, v1::SIDE_K, 0, bytes)) == "OK");
  REQUIRE(Said(holder.TryPublish(BlocksOf({1}), block)) == "OK");
  const auto evicted = other.TryEvict(0, block);
  REQUIRE(Said(evicted) == "OK");
  CHECK(evicted->block_ids_size() == 1);
  CHECK(evicted->freed() == 0);
  CHECK(other.Find(BlocksOf({1})).empty());
  const v1::Blocks rest = *other.session().AllocUpTo(4);
  CHECK(rest.block_ids_size() == 3);
  REQUIRE(Said(other.session().Fill(rest, v1::FILL_POISON)) == "OK");
  const auto pieces = holder.session().Read(block);
  REQUIRE(Said(pieces) == "OK");
  CHECK(pieces->front().data().substr(0, bytes.size()) == bytes);
  CHECK(holder.session().DecRef(block)->freed() == 1);
  CHECK(holder.session().Close().ok());
  CHECK(other.session().Close().ok());
  Leave(node);
}

TEST_CASE("Of many that publish the same prefixes at once one wins each, and all agree who") {
  constexpr uint32_t kKeys = 200;
  Node node(/*num_blocks=*/4 * kKeys);
  RawClient* const client = node.Connect();
  std::vector<std::unique_ptr<PrefixUser>> users;
  for (int i = 0; i < 4; ++i) users.push_back(std::make_unique<PrefixUser>(*client));
  // Of each worker, for each key: the block that it was told is findable.
  std::vector<std::vector<uint32_t>> known(users.size(), std::vector<uint32_t>(kKeys));
  std::vector<uint32_t> published(users.size());
  std::vector<std::string> failures(users.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < users.size(); ++i) {
    threads.emplace_back([&, i] {
      for (uint32_t key = 0; key < kKeys && failures[i].empty(); ++key) {
        const auto blocks = users[i]->session().Alloc(1);
        const auto answer = users[i]->TryPublish(BlocksOf({key}), *blocks);
        if (!answer.ok()) {
          failures[i] = answer.status().ToString();
          return;
        }
        published[i] += answer->published();
        known[i][key] = answer->duplicates_size() == 0 ? blocks->block_ids(0)
                                                       : answer->duplicates(0).block_id();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < users.size(); ++i) {
    CHECK(failures[i].empty());
    CHECK(known[i] == known[0]);
  }
  CHECK(published[0] + published[1] + published[2] + published[3] == kKeys);
  CHECK(node.Pool().published_blocks() == kKeys);
  node.CheckCounts();
  for (const auto& user : users) CHECK(user->session().Close().ok());
  CHECK(node.Pool().cached_blocks() == kKeys);
  Leave(node);
}

TEST_CASE("A reset forgets what is findable, and leaves held blocks to their holders") {
  Node node(/*num_blocks=*/10);
  RawClient* const client = node.Connect();
  PrefixUser user(*client);
  for (uint32_t i = 0; i < 10; ++i) user.Cache(BlocksOf({i}));
  for (uint32_t i = 0; i < 3; ++i) user.Hold(BlocksOf({i}));
  CHECK(*node.eyes().ResetPrefixes("p") == 10);
  CHECK(node.Pool().held_blocks() == 3);
  CHECK(node.Pool().free_blocks() == 7);
  CHECK(node.Pool().published_blocks() == 0);
  CHECK(*node.eyes().ResetPrefixes("p") == 0);
  CHECK(user.Find(BlocksOf({0})).empty());
  CHECK(user.session().Close().ok());
  CHECK(node.FreeBlocks() == 10);
  Leave(node);
}

}  // namespace
}  // namespace kvpool::test
