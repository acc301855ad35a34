#include "core/ledger/holder_table.h"

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool {
namespace {

std::vector<BlockId> BlocksOf(const HolderTable& table, const HolderList& list) {
  std::vector<BlockId> blocks;
  for (HolderSlot slot = list.head; slot != kNoHolder; slot = table.at(slot).next) {
    blocks.push_back(table.block(slot));
  }
  return blocks;
}

TEST_CASE("HolderTable finds a session's references to a block, and nobody else's") {
  BlockTable blocks(/*num_blocks=*/2);
  HolderTable table(blocks);
  const BlockId block = blocks.Take();
  HolderList list_a;
  HolderList list_b;
  const HolderSlot a = table.Add(block, SessionSlot{0}, 1, list_a);
  const HolderSlot b = table.Add(block, SessionSlot{1}, 2, list_b);

  CHECK(table.Find(block, SessionSlot{0}) == a);
  CHECK(table.Find(block, SessionSlot{1}) == b);
  CHECK(table.at(b).count == 2);
  CHECK(table.Find(block, SessionSlot{2}) == kNoHolder);
  CHECK(table.Find(BlockId{1}, SessionSlot{0}) == kNoHolder);
}

TEST_CASE("HolderTable lists a session's blocks, the newest first, whatever is taken out") {
  BlockTable blocks(/*num_blocks=*/3);
  HolderTable table(blocks);
  HolderList list;
  std::array<HolderSlot, 3> slots{};
  for (HolderSlot& slot : slots) slot = table.Add(blocks.Take(), SessionSlot{0}, 1, list);
  CHECK(BlocksOf(table, list) == std::vector<BlockId>{BlockId{2}, BlockId{1}, BlockId{0}});

  table.Remove(slots[1], list);
  CHECK(BlocksOf(table, list) == std::vector<BlockId>{BlockId{2}, BlockId{0}});
  table.Remove(slots[2], list);
  CHECK(BlocksOf(table, list) == std::vector<BlockId>{BlockId{0}});
  table.Remove(slots[0], list);
  CHECK(list.head == kNoHolder);
}

TEST_CASE("HolderTable keeps further holders in place when the first one leaves") {
  BlockTable blocks(/*num_blocks=*/1);
  HolderTable table(blocks);
  const BlockId block = blocks.Take();
  std::array<HolderList, 3> lists;
  const HolderSlot first = table.Add(block, SessionSlot{0}, 1, lists[0]);
  const HolderSlot second = table.Add(block, SessionSlot{1}, 7, lists[1]);
  table.Remove(first, lists[0]);

  CHECK(table.Find(block, SessionSlot{1}) == second);
  CHECK(table.at(second).count == 7);
  CHECK(table.ListHolders(block) == std::vector<HolderSlot>{second});
  const HolderSlot third = table.Add(block, SessionSlot{2}, 1, lists[2]);
  CHECK(third == first);
  CHECK(table.ListHolders(block) == std::vector<HolderSlot>{third, second});
}

TEST_CASE("HolderTable moves a holder from one list to another") {
  BlockTable blocks(/*num_blocks=*/2);
  HolderTable table(blocks);
  HolderList held;
  HolderList claims;
  const HolderSlot slot = table.Add(blocks.Take(), SessionSlot{0}, 1, held);
  table.Add(blocks.Take(), SessionSlot{0}, 1, held);
  table.Move(slot, held, claims);
  CHECK(BlocksOf(table, held) == std::vector<BlockId>{BlockId{1}});
  CHECK(BlocksOf(table, claims) == std::vector<BlockId>{BlockId{0}});
}

TEST_CASE("HolderTable agrees with a map over random calls") {
  constexpr uint32_t kBlocks = 5;
  constexpr uint32_t kSessions = 4;
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  BlockTable blocks(kBlocks);
  for (uint32_t i = 0; i < kBlocks; ++i) blocks.Take();
  HolderTable table(blocks);
  std::array<HolderList, kSessions> lists;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> model;  // (session, block) to count

  for (uint32_t step = 1; step <= 5'000; ++step) {
    CAPTURE(seed, step);
    const uint32_t session = random.Below(kSessions);
    const uint32_t block = random.Below(kBlocks);
    const HolderSlot slot = table.Find(BlockId{block}, SessionSlot{session});
    const auto known = model.find({session, block});
    REQUIRE((slot != kNoHolder) == (known != model.end()));
    if (slot == kNoHolder) {
      table.Add(BlockId{block}, SessionSlot{session}, step, lists[session]);
      model[{session, block}] = step;
    } else {
      REQUIRE(table.at(slot).count == known->second);
      table.Remove(slot, lists[session]);
      model.erase(known);
    }
    size_t listed = 0;
    for (const HolderList& list : lists) listed += BlocksOf(table, list).size();
    size_t of_blocks = 0;
    for (uint32_t i = 0; i < kBlocks; ++i) of_blocks += table.ListHolders(BlockId{i}).size();
    REQUIRE(listed == model.size());
    REQUIRE(of_blocks == model.size());
  }
}

}  // namespace
}  // namespace kvpool
