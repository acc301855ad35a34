#include "client/cli/replay/block_name.h"

#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace kvpool::replay {
namespace {

std::set<std::string> HashesOf(const std::vector<std::vector<uint64_t>>& requests) {
  std::set<std::string> hashes;
  for (const auto& numbers : requests) {
    for (const BlockName& name : NameBlocks(numbers)) hashes.insert(name.ToHash());
  }
  return hashes;
}

}  // namespace

TEST_CASE("Blocks have one name where all before them are the same, and else different ones") {
  CHECK(HashesOf({{1, 2, 3}, {1, 2, 3}, {1, 2}}).size() == 3);
  CHECK(HashesOf({{1, 2, 3}, {2, 3}}).size() == 5);
  CHECK(HashesOf({{1, 2}, {2, 1}}).size() == 4);
  CHECK(HashesOf({{0, 0, 0, 0}}).size() == 4);
  CHECK(NameBlocks({}).empty());
}

TEST_CASE("A block's hash is its name, least significant byte first, and begins its key") {
  const BlockName name = {.chain = 0x0807060504030201, .number = 0x7B00000000000000};
  CHECK(name.ToHash() == std::string("\1\2\3\4\5\6\7\b\0\0\0\0\0\0\0{", 16));
  const PrefixKey key = name.ToKey();
  CHECK(std::string(key.view()) == name.ToHash() + std::string(16, '\0'));
}

TEST_CASE("A block's name never changes: daemons and workers of any version share it") {
  const std::vector<uint64_t> numbers = {7, 8};
  const std::vector<BlockName> names = NameBlocks(numbers);
  CHECK(names[0] == BlockName{.chain = 0x63CBE1E459320DD7, .number = 7});
  CHECK(names[1].number == 8);
  CHECK(names[1].chain != names[0].chain);
}

}  // namespace kvpool::replay
