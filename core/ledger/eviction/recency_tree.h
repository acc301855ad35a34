#pragma once

#include "core/ids.h"
#include "core/ledger/eviction/block_note.h"
#include "core/ledger/eviction/use_stamp.h"

namespace kvpool {

// A set of blocks in the order of their last use: a tree threaded through their notes. This is
// its root; RecencyTrees works on it.
struct RecencyTree {
  BlockId root = kNoBlock;
};

// RecencyTrees adds to, takes from and searches the trees of one CandidateOrder.
//
// They are treaps whose priorities are a hash of the block's number, so that a set has one shape,
// however it came about, and no note holds a priority. Every operation takes time logarithmic in
// the tree, as numbers of blocks are nothing a caller chooses.
class RecencyTrees {
 public:
  // `notes` must outlive it. A block in a tree keeps its `last_use`.
  RecencyTrees(BlockNotes& notes, CandidateOrder order)
      : notes_(notes), order_(static_cast<size_t>(order)) {}

  // Requires that the block is in no tree of this order.
  void Insert(RecencyTree& tree, BlockId block);
  // Requires that it is in this one.
  void Remove(RecencyTree& tree, BlockId block);

  // The block used longest ago of those whose stamp is at least `first`; kNoBlock where there is
  // none.
  BlockId OldestFrom(const RecencyTree& tree, UseStamp first) const;

 private:
  TreeLinks& links(BlockId block) { return notes_[ToIndex(block)].links[order_]; }
  const TreeLinks& links(BlockId block) const { return notes_[ToIndex(block)].links[order_]; }
  UseStamp stamp(BlockId block) const { return notes_[ToIndex(block)].last_use; }

  BlockNotes& notes_;
  const size_t order_;
};

}  // namespace kvpool
