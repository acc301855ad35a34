#include "core/ledger/eviction/candidates.h"

#include "core/check.h"

namespace kvpool {

void Candidates::Add(BlockId block) {
  const TenantSlot tenant = notes_[ToIndex(block)].tenant;
  if (ToIndex(tenant) >= tenants_.size()) tenants_.resize(ToIndex(tenant) + 1);
  AddTo(all_, trees_of_all_, block);
  AddTo(tenants_[ToIndex(tenant)], trees_of_tenants_, block);
}

void Candidates::Remove(BlockId block) {
  RemoveFrom(all_, trees_of_all_, block);
  RemoveFrom(tenants_[ToIndex(notes_[ToIndex(block)].tenant)], trees_of_tenants_, block);
}

BlockId Candidates::Oldest(TenantSlot tenant, CandidateGroup group) {
  const Order* const order = FindOrder(tenant);
  if (order == nullptr) return kNoBlock;
  return trees(tenant).Oldest(order->trees[static_cast<size_t>(group)]);
}

size_t Candidates::size_bytes() const {
  size_t bytes = tenants_.capacity() * sizeof(Order) + (all_.heads != nullptr ? sizeof(Heads) : 0);
  for (const Order& order : tenants_) bytes += order.heads != nullptr ? sizeof(Heads) : 0;
  return bytes;
}

Candidates::Order* Candidates::FindOrder(TenantSlot tenant) {
  if (tenant == kNoTenant) return &all_;
  return ToIndex(tenant) < tenants_.size() ? &tenants_[ToIndex(tenant)] : nullptr;
}

void Candidates::AddTo(Order& order, RecencyTrees& trees, BlockId block) {
  const auto group = static_cast<size_t>(notes_[ToIndex(block)].group);
  trees.Insert(order.trees[group], block);
  ++order.count;
  if (order.heads != nullptr && group < kBinnedGroupCount) {
    (*order.heads)[group].Inserted(trees, block);
  }
}

void Candidates::RemoveFrom(Order& order, RecencyTrees& trees, BlockId block) {
  const auto group = static_cast<size_t>(notes_[ToIndex(block)].group);
  trees.Remove(order.trees[group], block);
  --order.count;
  if (order.heads == nullptr) return;
  if (order.count < kFollowDownTo) {
    order.heads.reset();
  } else if (group < kBinnedGroupCount) {
    (*order.heads)[group].Removed(trees, order.trees[group], block);
  }
}

void Candidates::FollowBins(Order& order, const RecencyTrees& trees, int64_t now_ms) {
  if (order.heads != nullptr) {
    for (size_t i = 0; i < kBinnedGroupCount; ++i) {
      (*order.heads)[i].Advance(trees, order.trees[i], now_ms);
    }
  } else if (order.count >= kFollowFrom) {
    order.heads = std::make_unique<Heads>(
        Heads{BinHeads(trees, order.trees[0], now_ms), BinHeads(trees, order.trees[1], now_ms)});
  }
}

}  // namespace kvpool
