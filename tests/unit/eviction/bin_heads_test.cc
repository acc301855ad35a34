#include "core/ledger/eviction/bin_heads.h"

#include <algorithm>
#include <array>
#include <map>

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool {
namespace {

using HeadsByBin = std::array<BlockId, AgeBins::kCount>;

HeadsByBin Empty() {
  HeadsByBin heads;
  heads.fill(kNoBlock);
  return heads;
}

// A tree of random blocks whose heads are followed, and what they must be.
struct Followed {
  BlockNotes notes;
  RecencyTrees trees{notes, CandidateOrder::kOfAll};
  RecencyTree tree;
  std::map<UseStamp, BlockId> model;
  int64_t now_ms = 1'000'000;

  HeadsByBin Expected() const {
    HeadsByBin heads = Empty();
    for (auto it = model.rbegin(); it != model.rend(); ++it) {
      heads[AgeBins::Of(std::max<int64_t>(now_ms - TimeMsOf(it->first), 0))] = it->second;
    }
    return heads;
  }
};

}  // namespace

TEST_CASE("BinHeads of an empty tree visit nothing") {
  const Followed followed;
  const BinHeads heads(followed.trees, followed.tree, followed.now_ms);
  int visits = 0;
  heads.ForEach([&](size_t, BlockId) { ++visits; });
  BinHeads::Search(followed.trees, followed.tree, followed.now_ms,
                   [&](size_t, BlockId) { ++visits; });
  CHECK(visits == 0);
}

TEST_CASE("BinHeads and a search visit the oldest block of each age bin, over random calls") {
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  constexpr uint32_t kBlocks = 60;
  Followed followed;
  for (uint32_t i = 0; i < kBlocks; ++i) followed.notes.Make(i);
  BinHeads heads(followed.trees, followed.tree, followed.now_ms);

  for (int step = 0; step < 20'000; ++step) {
    CAPTURE(seed, step);
    if (random.OneIn(3)) followed.now_ms += random.Below(1U << random.Below(20));
    const BlockId block{random.Below(kBlocks)};
    BlockNote& note = followed.notes[ToIndex(block)];
    if (note.is_candidate) {
      followed.trees.Remove(followed.tree, block);
      followed.model.erase(note.last_use);
      heads.Removed(followed.trees, followed.tree, block);
    } else {
      // Any age, now and then a bin's exact begin.
      int64_t age_ms = random.Below(1U << random.Below(27));
      if (random.OneIn(4)) age_ms = AgeBins::begin_ms(random.Below(AgeBins::kCount));
      note.last_use =
          UseStamp{ToNumber(FirstStampOf(followed.now_ms - age_ms)) + static_cast<uint64_t>(step)};
      followed.trees.Insert(followed.tree, block);
      followed.model.emplace(note.last_use, block);
      heads.Inserted(followed.trees, block);
    }
    note.is_candidate = !note.is_candidate;
    // Not each time: what comes and goes in between meets heads of a time gone by.
    if (random.OneIn(2)) continue;
    heads.Advance(followed.trees, followed.tree, followed.now_ms);
    HeadsByBin visited = Empty();
    heads.ForEach([&](size_t bin, BlockId head) { visited[bin] = head; });
    HeadsByBin found = Empty();
    BinHeads::Search(followed.trees, followed.tree, followed.now_ms,
                     [&](size_t bin, BlockId head) { found[bin] = head; });
    REQUIRE(visited == followed.Expected());
    REQUIRE(found == followed.Expected());
  }
}

}  // namespace kvpool
