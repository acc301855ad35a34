#include "core/ledger/eviction/recency_tree.h"

#include <map>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool {

TEST_CASE("RecencyTrees find nothing in an empty tree") {
  BlockNotes notes;
  const RecencyTrees trees(notes, CandidateOrder::kOfAll);
  const RecencyTree tree;
  CHECK(trees.OldestFrom(tree, UseStamp{}) == kNoBlock);
  CHECK(trees.OldestFrom(tree, UseStamp{7}) == kNoBlock);
}

TEST_CASE("A block can be in one tree of each order") {
  BlockNotes notes;
  RecencyTrees of_all(notes, CandidateOrder::kOfAll);
  RecencyTrees of_tenants(notes, CandidateOrder::kOfTenant);
  notes.Make(3).last_use = UseStamp{30};
  notes.Make(4).last_use = UseStamp{20};
  RecencyTree all;
  RecencyTree tenant;
  of_all.Insert(all, BlockId{3});
  of_all.Insert(all, BlockId{4});
  of_tenants.Insert(tenant, BlockId{3});

  CHECK(of_all.OldestFrom(all, UseStamp{}) == BlockId{4});
  CHECK(of_tenants.OldestFrom(tenant, UseStamp{}) == BlockId{3});
  of_tenants.Remove(tenant, BlockId{3});
  CHECK(of_tenants.OldestFrom(tenant, UseStamp{}) == kNoBlock);
  CHECK(of_all.OldestFrom(all, UseStamp{21}) == BlockId{3});
}

TEST_CASE("RecencyTrees agree with a sorted map over random calls") {
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  BlockNotes notes;
  RecencyTrees trees(notes, CandidateOrder::kOfTenant);
  RecencyTree tree;
  std::map<UseStamp, BlockId> model;
  constexpr uint32_t kBlocks = 300;
  for (uint32_t i = 0; i < kBlocks; ++i) notes.Make(i);

  for (int step = 0; step < 30'000; ++step) {
    CAPTURE(seed, step);
    const BlockId block{random.Below(kBlocks)};
    BlockNote& note = notes[ToIndex(block)];
    const bool is_in = note.kind != LeafKind::kNone;
    if (is_in) {
      trees.Remove(tree, block);
      REQUIRE(model.erase(note.last_use) == 1);
    } else {
      // Anywhere in the order, not only at its end.
      do note.last_use = UseStamp{random.Below(100'000)};
      while (!model.emplace(note.last_use, block).second);
      trees.Insert(tree, block);
    }
    note.kind = is_in ? LeafKind::kNone : LeafKind::kCandidate;
    const UseStamp first{random.Below(100'000)};
    const auto found = model.lower_bound(first);
    REQUIRE(trees.OldestFrom(tree, first) == (found == model.end() ? kNoBlock : found->second));
    REQUIRE(trees.OldestFrom(tree, UseStamp{}) ==
            (model.empty() ? kNoBlock : model.begin()->second));
  }
}

}  // namespace kvpool
