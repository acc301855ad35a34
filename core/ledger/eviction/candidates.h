#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/ids.h"
#include "core/ledger/eviction/bin_heads.h"
#include "core/ledger/eviction/block_note.h"
#include "core/ledger/eviction/recency_tree.h"
#include "core/ledger/slots.h"

namespace kvpool {

// Candidates keeps the blocks that may be evicted, by group and last use: those of all tenants in
// one order, and those of each tenant in one of its own.
//
// Where blocks are chosen by age bin, an order with many candidates follows the oldest of each bin
// from then on; one with few looks for them each time. So what a tenant costs is bounded by its
// candidates, and a choice takes time in the bins.
class Candidates {
 public:
  // The counts of candidates at which an order begins and ceases to follow its bins. What that
  // takes is at most 8 bytes a candidate.
  static constexpr uint32_t kFollowFrom = 64;
  static constexpr uint32_t kFollowDownTo = 48;

  // `notes` must outlive it.
  explicit Candidates(BlockNotes& notes) : notes_(notes) {}

  Candidates(const Candidates&) = delete;
  Candidates& operator=(const Candidates&) = delete;

  // Between the two, what the block's note says of its last use, tenant and group stays.
  void Add(BlockId block);
  void Remove(BlockId block);

  // The candidate of the group that was used longest ago: the tenant's, or of all where `tenant`
  // is kNoTenant. kNoBlock where there is none.
  BlockId Oldest(TenantSlot tenant, CandidateGroup group);

  // Calls visit(group, bin, block) with the oldest of each age bin that has one, of the groups
  // kSeenOnce and kSeenAgain. Requires that `now_ms` never falls.
  template <typename Visit>
  void ForEachBinHead(TenantSlot tenant, int64_t now_ms, const Visit& visit);

  // Allocated for orders: all tenants', and each tenant's that ever had a candidate.
  size_t size_bytes() const;

 private:
  static constexpr size_t kBinnedGroupCount = 2;  // kSeenOnce and kSeenAgain.
  using Heads = std::array<BinHeads, kBinnedGroupCount>;

  struct Order {
    std::array<RecencyTree, kCandidateGroupCount> trees;
    uint32_t count = 0;
    std::unique_ptr<Heads> heads;  // Null while nobody follows the bins.
  };

  const RecencyTrees& trees(TenantSlot tenant) const {
    return tenant == kNoTenant ? trees_of_all_ : trees_of_tenants_;
  }
  // Null where the tenant never had a candidate.
  Order* FindOrder(TenantSlot tenant);
  void AddTo(Order& order, RecencyTrees& trees, BlockId block);
  void RemoveFrom(Order& order, RecencyTrees& trees, BlockId block);
  static void FollowBins(Order& order, const RecencyTrees& trees, int64_t now_ms);

  BlockNotes& notes_;
  RecencyTrees trees_of_all_{notes_, CandidateOrder::kOfAll};
  RecencyTrees trees_of_tenants_{notes_, CandidateOrder::kOfTenant};
  Order all_;
  std::vector<Order> tenants_;  // By slot.
};

template <typename Visit>
void Candidates::ForEachBinHead(TenantSlot tenant, int64_t now_ms, const Visit& visit) {
  Order* const order = FindOrder(tenant);
  if (order == nullptr) return;
  FollowBins(*order, trees(tenant), now_ms);
  for (size_t i = 0; i < kBinnedGroupCount; ++i) {
    const auto visit_head = [i, &visit](size_t bin, BlockId block) {
      visit(static_cast<CandidateGroup>(i), bin, block);
    };
    if (order->heads != nullptr) {
      (*order->heads)[i].ForEach(visit_head);
    } else {
      BinHeads::Search(trees(tenant), order->trees[i], now_ms, visit_head);
    }
  }
}

}  // namespace kvpool
