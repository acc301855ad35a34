// What makes two prefixes the same, and what does not.
#include <string>
#include <vector>

#include "tests/integration/support/node.h"
#include "tests/integration/support/prefix_user.h"
#include "tests/support/catch.h"

namespace kvpool::test {
namespace {

void Leave(Node& node) {
  CHECK(Said(node.eyes().ResetPrefixes("p")) == "OK");
  node.CheckAllIsBack();
}

v1::Prefix With(v1::Prefix prefix, const std::string& salt, const std::string& adapter) {
  prefix.mutable_space()->set_salt(salt);
  prefix.mutable_space()->set_adapter(adapter);
  return prefix;
}

v1::Prefix WithImage(v1::Prefix prefix, const std::string& hash, uint32_t first, uint32_t count) {
  v1::Prefix::Extra& extra = *prefix.add_extras();
  extra.set_hash(hash);
  extra.set_first_token(first);
  extra.set_token_count(count);
  return prefix;
}

TEST_CASE("Tokens that differ anywhere, however slightly, are another prefix") {
  Node node(/*num_blocks=*/4);
  RawClient* const client = node.Connect();
  PrefixUser user(*client);
  v1::Prefix prefix;
  for (uint32_t i = 0; i < kBlockTokens; ++i) prefix.add_tokens(1'000 + 7 * i);
  user.PublishNew(prefix);
  CHECK(user.Find(prefix).size() == 1);
  for (int j = 0; j + 1 < static_cast<int>(kBlockTokens); ++j) {
    for (const uint32_t multiplier : {1U, 2U, 31U, 33U, 131U, 256U, 65'536U}) {
      v1::Prefix other = prefix;
      other.set_tokens(j, prefix.tokens(j) + multiplier);
      other.set_tokens(j + 1, prefix.tokens(j + 1) - 1);
      CHECK(user.Find(other).empty());
    }
    v1::Prefix swapped = prefix;
    swapped.set_tokens(j, prefix.tokens(j + 1));
    swapped.set_tokens(j + 1, prefix.tokens(j));
    CHECK(user.Find(swapped).empty());
  }
  v1::Prefix shifted;
  shifted.add_tokens(0);
  shifted.MergeFrom(prefix);
  CHECK(user.Find(shifted).empty());
  CHECK(user.session().Close().ok());
  Leave(node);
}

TEST_CASE("Salt and adapter do not meet by concatenation; empty is as if absent") {
  Node node(/*num_blocks=*/8);
  RawClient* const client = node.Connect();
  PrefixUser user(*client);
  const v1::Prefix plain = BlocksOf({1});
  user.PublishNew(With(plain, "ab", "c"));
  CHECK(user.Find(With(plain, "ab", "c")).size() == 1);
  CHECK(user.Find(With(plain, "a", "bc")).empty());
  CHECK(user.Find(With(plain, "abc", "")).empty());
  CHECK(user.Find(With(plain, "", "abc")).empty());
  CHECK(user.Find(plain).empty());
  user.PublishNew(plain);
  CHECK(user.Find(With(plain, "", "")).size() == 1);
  CHECK(user.session().Close().ok());
  Leave(node);
}

TEST_CASE("A salt keeps a prefix apart on every path, and the same salt finds it on each") {
  Node node(/*num_blocks=*/8);
  RawClient* const client = node.Connect();
  PrefixUser user(*client);
  const v1::Prefix ours = With(BlocksOf({1, 2}), "ours", "");
  const v1::Prefix theirs = With(BlocksOf({1, 2}), "theirs", "");
  const v1::Blocks blocks = user.PublishNew(ours);
  CHECK(user.Find(ours).size() == 2);
  CHECK(user.Find(theirs).empty());
  CHECK(user.Hold(ours).block_ids_size() == 2);
  CHECK(user.Hold(theirs).block_ids_size() == 0);
  CHECK(user.TryAcquire(ours, 2)->matched_blocks() == 2);
  CHECK(user.TryAcquire(theirs, 2)->matched_blocks() == 0);
  const auto again = user.TryPublish(ours, *user.session().Alloc(2));
  CHECK(again->duplicates_size() == 2);
  v1::Prefix next = With(BlocksOf({3}), "theirs", "");
  next.set_parent_key(again->last_key());
  CHECK(Said(user.TryPublish(next, *user.session().Alloc(1))) ==
        "FAILED_PRECONDITION PARENT_UNKNOWN");
  CHECK(user.session().Close().ok());
  Leave(node);
}

TEST_CASE("An image is part of the blocks that it overlaps, at its place, and of those after") {
  Node node(/*num_blocks=*/8);
  RawClient* const client = node.Connect();
  PrefixUser user(*client);
  const v1::Prefix plain = BlocksOf({1, 2, 3});
  user.PublishNew(WithImage(plain, "cat", 14, 6));  // In the first two blocks.
  const v1::Blocks more = *user.session().Alloc(3);
  CHECK(user.Find(WithImage(plain, "cat", 14, 6)).size() == 3);
  CHECK(user.Find(plain).empty());
  CHECK(user.Find(WithImage(plain, "dog", 14, 6)).empty());
  CHECK(user.Find(WithImage(plain, "cat", 15, 6)).empty());
  CHECK(user.Find(WithImage(WithImage(plain, "cat", 14, 6), "dog", 40, 2)).size() == 2);
  for (const v1::Prefix& wrong :
       {WithImage(plain, "cat", 47, 2), WithImage(plain, "", 1, 2), WithImage(plain, "cat", 1, 0),
        WithImage(WithImage(plain, "cat", 4, 4), "dog", 7, 4),
        WithImage(plain, std::string(65, 'x'), 1, 2)}) {
    CHECK(Said(user.TryLookup(wrong, /*acquire=*/true)) == "INVALID_ARGUMENT");
    CHECK(Said(user.TryPublish(wrong, more)) == "INVALID_ARGUMENT");
  }
  CHECK(user.Find(plain).empty());
  CHECK(node.Pool().published_blocks() == 3);
  CHECK(user.session().Close().ok());
  Leave(node);
}

TEST_CASE("A caller's hash is the same block only after the same parent") {
  Node node(/*num_blocks=*/8);
  RawClient* const client = node.Connect();
  PrefixUser user(*client);
  v1::Prefix first;
  first.add_block_hashes(std::string(20, '1'));
  first.add_block_hashes(std::string(20, '2'));
  user.PublishNew(first);
  v1::Prefix alone;
  alone.add_block_hashes(std::string(20, '2'));
  CHECK(user.Find(first).size() == 2);
  CHECK(user.Find(alone).empty());
  CHECK(user.session().Close().ok());
  Leave(node);
}

TEST_CASE("Only full blocks are shared") {
  Node node(/*num_blocks=*/4);
  RawClient* const client = node.Connect();
  PrefixUser user(*client);
  v1::Prefix twenty = BlocksOf({1, 2});
  twenty.mutable_tokens()->Truncate(20);
  CHECK(Said(user.TryPublish(twenty, *user.session().Alloc(2))) == "INVALID_ARGUMENT");
  CHECK(user.TryPublish(twenty, *user.session().Alloc(1))->published() == 1);
  CHECK(user.TryLookup(twenty, /*acquire=*/false)->matched_tokens() == 16);
  v1::Prefix longer = BlocksOf({1, 9});
  longer.mutable_tokens()->Truncate(24);
  CHECK(user.TryLookup(longer, /*acquire=*/false)->matched_tokens() == 16);
  v1::Prefix shorter = BlocksOf({1});
  shorter.mutable_tokens()->Truncate(15);
  CHECK(user.TryLookup(shorter, /*acquire=*/false)->matched_tokens() == 0);
  CHECK(user.session().Close().ok());
  Leave(node);
}

TEST_CASE("Models never find each other's blocks") {
  Node node(/*num_blocks=*/4);
  RawClient* const client = node.Connect();
  PrefixUser llama(*client, "llama");
  PrefixUser qwen(*client, "qwen");
  llama.PublishNew(BlocksOf({1}));
  CHECK(llama.Find(BlocksOf({1})).size() == 1);
  CHECK(qwen.Find(BlocksOf({1})).empty());
  CHECK(llama.session().Close().ok());
  CHECK(qwen.session().Close().ok());
  Leave(node);
}

}  // namespace
}  // namespace kvpool::test
