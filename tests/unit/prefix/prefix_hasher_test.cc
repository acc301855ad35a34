#include "core/ledger/prefix/prefix_hasher.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

namespace kvpool {
namespace {

constexpr uint32_t kBlockSize = 4;

const PrefixSpace kSpace = {.fingerprint = "f", .tenant = "t", .model_id = "m"};

std::vector<uint32_t> Tokens(uint32_t count) {
  std::vector<uint32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 1'000U);
  return tokens;
}

PrefixKeys KeysOf(const Prefix& prefix) {
  REQUIRE(CheckPrefix(prefix).ok());
  return PrefixHasher().Hash(prefix, kBlockSize);
}

PrefixKeys KeysOf(const std::vector<uint32_t>& tokens,
                  const std::vector<PrefixExtra>& extras = {}) {
  return KeysOf({.space = kSpace, .tokens = tokens, .extras = extras});
}

PrefixKeys KeysIn(const PrefixSpace& space) {
  return KeysOf({.space = space, .tokens = Tokens(kBlockSize)});
}

TEST_CASE("PrefixHasher makes a key for each full block, and none for a tail") {
  CHECK(KeysOf(Tokens(0)).blocks.empty());
  CHECK(KeysOf(Tokens(3)).blocks.empty());
  CHECK(KeysOf(Tokens(4)).blocks.size() == 1);
  CHECK(KeysOf(Tokens(11)).blocks.size() == 2);
  CHECK(KeysOf(Tokens(11)).blocks == KeysOf(Tokens(8)).blocks);
}

TEST_CASE("PrefixHasher makes no more keys than it is asked for") {
  const PrefixHasher hasher;
  const std::vector<uint32_t> tokens = Tokens(12);
  const std::vector<absl::string_view> hashes(3, "0123456789abcdef");
  for (const Prefix& prefix : {Prefix{.tokens = tokens}, Prefix{.block_hashes = hashes}}) {
    const std::vector<PrefixKey> all = hasher.Hash(prefix, kBlockSize).blocks;
    REQUIRE(all.size() == 3);
    CHECK(hasher.Hash(prefix, kBlockSize, 0).blocks.empty());
    CHECK(hasher.Hash(prefix, kBlockSize, 2).blocks == std::vector(all.begin(), all.begin() + 2));
    CHECK(hasher.Hash(prefix, kBlockSize, 4).blocks == all);
  }
}

TEST_CASE("A key depends on every token of its block and of those before it") {
  const std::vector<uint32_t> tokens = Tokens(8);
  const std::vector<PrefixKey> keys = KeysOf(tokens).blocks;
  for (size_t i = 0; i < tokens.size(); ++i) {
    CAPTURE(i);
    std::vector<uint32_t> changed = tokens;
    changed[i] ^= 1U << 31;
    CHECK((KeysOf(changed).blocks[0] == keys[0]) == (i >= kBlockSize));
    CHECK(KeysOf(changed).blocks[1] != keys[1]);
  }
}

TEST_CASE("Neighbouring tokens that make up for each other's change make another key") {
  const std::vector<uint32_t> tokens = Tokens(4);
  const PrefixKey key = KeysOf(tokens).blocks[0];
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    for (const uint32_t factor : {1U, 2U, 31U, 33U, 37U, 257U, 65'599U}) {
      CAPTURE(i, factor);
      std::vector<uint32_t> changed = tokens;
      changed[i] += factor;
      changed[i + 1] -= 1;
      CHECK(KeysOf(changed).blocks[0] != key);
    }
    std::vector<uint32_t> swapped = tokens;
    std::swap(swapped[i], swapped[i + 1]);
    CHECK(KeysOf(swapped).blocks[0] != key);
  }
  const std::vector<PrefixKey> zeros = KeysOf(std::vector<uint32_t>(8, 0)).blocks;
  CHECK(zeros[0] != zeros[1]);
}

TEST_CASE("Spaces that differ in one field, or are cut otherwise, have no key in common") {
  const std::vector<PrefixSpace> spaces = {
      {},
      {.fingerprint = "ab"},
      {.tenant = "ab"},
      {.model_id = "ab"},
      {.adapter = "ab"},
      {.salt = "ab"},
      {.fingerprint = "a", .tenant = "b"},
      {.tenant = "a", .model_id = "b"},
      {.model_id = "a", .adapter = "b"},
      {.adapter = "a", .salt = "b"},
      {.adapter = "ab", .salt = "c"},
      {.adapter = "a", .salt = "bc"},
      {.adapter = "c", .salt = "ab"},
      {.adapter = "bc", .salt = "a"},
      {.salt = "abc"},
      {.adapter = "abc"},
      {.adapter = absl::string_view("a\0", 2)},
      {.adapter = "a"},
  };
  std::set<PrefixKey> keys;
  for (const PrefixSpace& space : spaces) {
    const PrefixKeys made = KeysIn(space);
    keys.insert(made.root);
    keys.insert(made.blocks[0]);
    CHECK(made.blocks == KeysIn(space).blocks);
  }
  CHECK(keys.size() == 2 * spaces.size());
}

TEST_CASE("A caller's hashes have keys of their own, whatever bytes they are") {
  const std::vector<uint32_t> tokens = Tokens(4);
  const absl::string_view bytes(reinterpret_cast<const char*>(tokens.data()), 16);
  const std::vector<absl::string_view> hashes = {bytes};
  const PrefixKeys by_hash = KeysOf({.space = kSpace, .block_hashes = hashes});
  const PrefixKeys by_tokens = KeysOf(tokens);
  CHECK(by_hash.root != by_tokens.root);
  CHECK(by_hash.blocks[0] != by_tokens.blocks[0]);

  const std::vector<absl::string_view> made = {by_tokens.blocks[0].view()};
  CHECK(KeysOf({.space = kSpace, .block_hashes = made}).blocks[0] != by_tokens.blocks[0]);
}

TEST_CASE("A caller's hash elsewhere is another key") {
  const std::vector<absl::string_view> hashes = {"0123456789abcdef", "0123456789abcdef",
                                                 "0123456789abcdef0"};
  const std::vector<PrefixKey> keys = KeysOf({.space = kSpace, .block_hashes = hashes}).blocks;
  CHECK(keys[0] != keys[1]);
  CHECK(keys[1] != keys[2]);
}

TEST_CASE("Blocks that go on after a parent key have the keys that they have in the whole") {
  const std::vector<uint32_t> tokens = Tokens(12);
  const std::vector<PrefixExtra> extras = {{3, 6, "image"}};
  const PrefixKeys whole = KeysOf(tokens, extras);
  CHECK_FALSE(whole.parent.has_value());

  const std::vector<PrefixExtra> rest = {{0, 5, "image"}};
  const PrefixKeys part = KeysOf({.space = kSpace,
                                  .tokens = std::span(tokens).subspan(4),
                                  .parent_key = whole.blocks[0].view(),
                                  .extras = rest});
  CHECK(part.root == whole.root);
  CHECK(part.parent == whole.blocks[0]);
  CHECK(part.blocks == std::vector(whole.blocks.begin() + 1, whole.blocks.end()));
}

TEST_CASE("The root's key as a parent key is a parent key, and not the start") {
  const std::vector<uint32_t> tokens = Tokens(4);
  const PrefixKey root = KeysOf(tokens).root;
  CHECK(KeysOf({.space = kSpace, .tokens = tokens, .parent_key = root.view()}).parent == root);
}

TEST_CASE("An extra is in the keys of the blocks that it overlaps, and of those after them") {
  const std::vector<uint32_t> tokens = Tokens(16);
  const std::vector<PrefixKey> plain = KeysOf(tokens).blocks;
  for (uint32_t first = 0; first < 16; ++first) {
    for (uint32_t count = 1; first + count <= 16; ++count) {
      CAPTURE(first, count);
      const std::vector<PrefixKey> keys = KeysOf(tokens, {{first, count, "image"}}).blocks;
      for (uint32_t block = 0; block < 4; ++block) {
        CHECK((keys[block] == plain[block]) == (block < first / kBlockSize));
      }
    }
  }
}

TEST_CASE("Only the same extra at the same place makes the same key") {
  const std::vector<uint32_t> tokens = Tokens(8);
  std::set<PrefixKey> keys;
  size_t count = 0;
  const auto add = [&](const std::vector<PrefixExtra>& extras) {
    const std::vector<PrefixKey> made = KeysOf(tokens, extras).blocks;
    CHECK(made == KeysOf(tokens, extras).blocks);
    keys.insert(made[1]);
    ++count;
  };
  add({});
  add({{4, 2, "image 1"}});
  add({{4, 2, "image 2"}});
  add({{5, 2, "image 1"}});
  add({{5, 1, "image 1"}});
  add({{3, 3, "image 1"}});
  add({{4, 1, "image 1"}, {5, 1, "image 1"}});
  add({{4, 1, "image 1"}, {5, 1, "image 2"}});
  add({{4, 1, "image 2"}, {5, 1, "image 1"}});
  add({{0, 1, "image 1"}});
  CHECK(keys.size() == count);
}

TEST_CASE("An extra in the tail is in no key") {
  const std::vector<uint32_t> tokens = Tokens(6);
  CHECK(KeysOf(tokens, {{4, 2, "image"}}).blocks == KeysOf(tokens).blocks);
}

TEST_CASE("Threads may use one PrefixHasher at a time") {
  const PrefixHasher hasher;
  const std::vector<uint32_t> tokens = Tokens(4 * kBlockSize);
  const Prefix prefix = {.space = kSpace, .tokens = tokens};
  const std::vector<PrefixKey> expected = hasher.Hash(prefix, kBlockSize).blocks;
  std::array<bool, 3> is_same{};
  {
    std::vector<std::jthread> threads;
    for (bool& same : is_same) {
      threads.emplace_back([&] {
        same = true;
        for (int i = 0; i < 200; ++i) {
          same = same && hasher.Hash(prefix, kBlockSize).blocks == expected;
        }
      });
    }
  }
  CHECK(std::ranges::all_of(is_same, [](bool same) { return same; }));
}

}  // namespace
}  // namespace kvpool
