#include "core/ledger/eviction/bin_heads.h"

namespace kvpool {

BinHeads::BinHeads(const RecencyTrees& trees, const RecencyTree& tree, int64_t now_ms)
    : now_ms_(now_ms) {
  for (size_t bin = 0; bin < heads_.size(); ++bin) {
    heads_[bin] = trees.OldestFrom(tree, FirstStamp(bin, now_ms));
  }
}

void BinHeads::Advance(const RecencyTrees& trees, const RecencyTree& tree, int64_t now_ms) {
  if (now_ms == now_ms_) return;
  now_ms_ = now_ms;
  for (size_t bin = 0; bin < heads_.size(); ++bin) {
    if (heads_[bin] == kNoBlock) continue;
    const UseStamp first = FirstStamp(bin, now_ms);
    if (trees.stamp(heads_[bin]) < first) {
      heads_[bin] = trees.OldestFrom(tree, first);
    }
  }
}

void BinHeads::Inserted(const RecencyTrees& trees, BlockId block) {
  const UseStamp last_use = trees.stamp(block);
  for (size_t bin = BinOf(last_use, now_ms_); bin < heads_.size(); ++bin) {
    // Heads of older bins are as old or older.
    if (heads_[bin] != kNoBlock && trees.stamp(heads_[bin]) < last_use) return;
    heads_[bin] = block;
  }
}

void BinHeads::Removed(const RecencyTrees& trees, const RecencyTree& tree, BlockId block) {
  const UseStamp last_use = trees.stamp(block);
  size_t bin = BinOf(last_use, now_ms_);
  if (heads_[bin] != block) return;
  const BlockId next = trees.OldestFrom(tree, UseStamp{ToNumber(last_use) + 1});
  for (; bin < heads_.size() && heads_[bin] == block; ++bin) heads_[bin] = next;
}

}  // namespace kvpool
