#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/ids.h"
#include "core/ledger/eviction/age_bins.h"
#include "core/ledger/eviction/block_note.h"
#include "core/ledger/eviction/recency_tree.h"

namespace kvpool {

// BinHeads follows the oldest block of each age bin of a tree while time goes on and blocks come
// and go, so that nobody has to search for them at each choice.
//
// It keeps, of each bin, the oldest block that is no older than the bin: where the bin is empty,
// that is the one of the next younger bin that is not. As long as that block stays and has not
// grown too old, nothing has to be looked up. Its calls are told the tree, always the same.
class BinHeads {
 public:
  // As of `now_ms`.
  BinHeads(const RecencyTrees& trees, const RecencyTree& tree, int64_t now_ms);

  // Follows the time.
  void Advance(const RecencyTrees& trees, const RecencyTree& tree, int64_t now_ms);
  // The block is in the tree now.
  void Inserted(const RecencyTrees& trees, BlockId block);
  // The block is in the tree no more.
  void Removed(const RecencyTrees& trees, const RecencyTree& tree, BlockId block);

  // Calls visit(bin, block) with the oldest block of each bin that has one, the oldest bin first.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (size_t bin = AgeBins::kCount; bin-- > 0;) {
      const BlockId head = heads_[bin];
      if (head != kNoBlock && (bin == 0 || head != heads_[bin - 1])) visit(bin, head);
    }
  }

  // The same without heads, by searches in the tree: one for each bin that has a block.
  template <typename Visit>
  static void Search(const RecencyTrees& trees, const RecencyTree& tree, int64_t now_ms,
                     const Visit& visit);

 private:
  // The lowest stamp of blocks that are no older than the bin.
  static UseStamp FirstStamp(size_t bin, int64_t now_ms) {
    if (bin + 1 == AgeBins::kCount) return UseStamp{};
    return FirstStampOf(now_ms - AgeBins::begin_ms(bin + 1) + 1);
  }
  static size_t BinOf(UseStamp stamp, int64_t now_ms) {
    return AgeBins::Of(std::max<int64_t>(now_ms - TimeMsOf(stamp), 0));
  }

  int64_t now_ms_ = 0;
  std::array<BlockId, AgeBins::kCount> heads_{};
};

template <typename Visit>
void BinHeads::Search(const RecencyTrees& trees, const RecencyTree& tree, int64_t now_ms,
                      const Visit& visit) {
  for (BlockId block = trees.Oldest(tree); block != kNoBlock;) {
    const size_t bin = BinOf(trees.stamp(block), now_ms);
    visit(bin, block);
    if (bin == 0) return;
    block = trees.OldestFrom(tree, FirstStamp(bin - 1, now_ms));
  }
}

}  // namespace kvpool
