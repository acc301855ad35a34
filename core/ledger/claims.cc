#include "core/ledger/claims.h"

#include <algorithm>

namespace kvpool {
namespace {

bool IsToClaim(const LedgerState& state, const Session& session, BlockId block) {
  const HolderTable& holders = state.references.holders();
  if (session.claim_cursor != kNoHolder) {
    const Session& parent = state.sessions.at(session.parent);
    const HolderSlot holder = holders.Find(block, parent.slot);
    return holder != kNoHolder && IsToClaim(session, parent, holder);
  }
  // One without references would be a claim that is made.
  return !session.is_vouched && holders.Find(block, session.slot) != kNoHolder;
}

}  // namespace

bool IsToClaim(const Session& member, const Session& parent, HolderSlot holder) {
  if (member.claim_cursor == kNoHolder) return false;
  const auto taken = parent.taken_since.find(holder);
  return taken == parent.taken_since.end() || taken->second < member.claim_order;
}

bool IsClaimed(const LedgerState& state, BlockId block) {
  const BlockRecord& record = state.references.blocks().record(block);
  if (record.claims > 0) return true;
  if (record.has(BlockRecord::kSealed)) return false;
  return std::ranges::any_of(state.reclaim_work, [&](const auto& entry) {
    return IsToClaim(state, state.sessions.at(entry.second), block);
  });
}

}  // namespace kvpool
