#include "core/ledger/claims.h"

#include <algorithm>
#include <iterator>

namespace kvpool {

void Claims::Begin(Session& member) {
  Session& parent = sessions_.at(member.parent);
  if (parent.held.head == kNoHolder) return;
  member.claim_order = ++parent.member_ends;
  parent.claimants.emplace(member.claim_order, member.slot);
}

void Claims::End(Session& member) {
  if (member.claim_order == 0 || member.parent == kNoSession) return;
  Session& parent = sessions_.at(member.parent);
  parent.claimants.erase(member.claim_order);
  if (parent.claimants.empty()) parent.taken.clear();
}

bool Claims::IsClaimed(BlockId block) const {
  const BlockRecord& record = references_.blocks().record(block);
  if (record.claims > 0) return true;
  if (record.references == 0 || record.has(BlockRecord::kSealed)) return false;
  return references_.holders().AnyOf(block, [this](HolderSlot slot, const Holder& holder) {
    const Session& session = sessions_.at(holder.session);
    return session.is_live ? session.has_claim_of_member(slot) : !session.is_vouched;
  });
}

void Claims::LetGo(Session& session, BlockId block) {
  const HolderSlot slot = references_.holders().Find(block, session.slot);
  if (references_.holders().at(slot).count > 1 || !session.has_claim_of_member(slot)) return;
  const auto taken = session.taken.find(slot);
  Make(sessions_.at(session.claimants.rbegin()->second), block,
       taken == session.taken.end() ? 0 : taken->second);
}

void Claims::EndClaim(Session& session, HolderSlot holder, const Cause& cause) {
  uint64_t since = 0;
  if (const auto found = session.claims_since.find(holder); found != session.claims_since.end()) {
    since = found->second;
    session.claims_since.erase(found);
  }
  if (session.claim_order > 0 && session.parent != kNoSession) {
    const auto& claimants = sessions_.at(session.parent).claimants;
    const auto later = claimants.lower_bound(session.claim_order);
    if (later != claimants.begin() && std::prev(later)->first > since) {
      Make(sessions_.at(std::prev(later)->second), references_.holders().block(holder), since);
    }
  }
  references_.EndClaim(session, holder, cause);
}

void Claims::Make(Session& member, BlockId block, uint64_t since) {
  if (references_.blocks().record(block).has(BlockRecord::kSealed)) return;
  const HolderSlot known = references_.holders().Find(block, member.slot);
  if (known == kNoHolder) {
    const HolderSlot slot = references_.Claim(member, block);
    if (since > 0) member.claims_since.emplace(slot, since);
    return;
  }
  // It has one from when the parent let the block go before.
  const auto found = member.claims_since.find(known);
  if (found == member.claims_since.end()) return;
  found->second = std::min(found->second, since);
}

}  // namespace kvpool
