#include "core/ledger/eviction/recency_tree.h"

#include "core/check.h"

namespace kvpool {
namespace {

// A permutation of the 32-bit numbers, so no two blocks have one priority.
uint32_t Priority(BlockId block) {
  uint32_t mixed = ToIndex(block) * 0x9E3779B1U;
  mixed ^= mixed >> 15;
  mixed *= 0x85EBCA77U;
  return mixed ^ mixed >> 13;
}

}  // namespace

void RecencyTrees::Insert(RecencyTree& tree, BlockId block) {
  const UseStamp last_use = stamp(block);
  const uint32_t priority = Priority(block);
  BlockId* place = &tree.root;
  while (*place != kNoBlock && Priority(*place) > priority) {
    TreeLinks& above = links(*place);
    place = last_use < stamp(*place) ? &above.older : &above.younger;
  }
  // What was there is split around the block.
  BlockId rest = *place;
  *place = block;
  BlockId* older = &links(block).older;
  BlockId* younger = &links(block).younger;
  while (rest != kNoBlock) {
    TreeLinks& below = links(rest);
    if (stamp(rest) < last_use) {
      *older = rest;
      older = &below.younger;
      rest = below.younger;
    } else {
      *younger = rest;
      younger = &below.older;
      rest = below.older;
    }
  }
  *older = kNoBlock;
  *younger = kNoBlock;
}

void RecencyTrees::Remove(RecencyTree& tree, BlockId block) {
  const UseStamp last_use = stamp(block);
  BlockId* place = &tree.root;
  while (*place != block) {
    KVPOOL_CHECK(*place != kNoBlock);
    TreeLinks& above = links(*place);
    place = last_use < stamp(*place) ? &above.older : &above.younger;
  }
  // Its children take its place as one.
  BlockId older = links(block).older;
  BlockId younger = links(block).younger;
  while (older != kNoBlock && younger != kNoBlock) {
    if (Priority(older) > Priority(younger)) {
      *place = older;
      place = &links(older).younger;
      older = *place;
    } else {
      *place = younger;
      place = &links(younger).older;
      younger = *place;
    }
  }
  *place = older != kNoBlock ? older : younger;
}

BlockId RecencyTrees::OldestFrom(const RecencyTree& tree, UseStamp first) const {
  BlockId found = kNoBlock;
  for (BlockId block = tree.root; block != kNoBlock;) {
    if (stamp(block) < first) {
      block = links(block).younger;
    } else {
      found = block;
      block = links(block).older;
    }
  }
  return found;
}

}  // namespace kvpool
