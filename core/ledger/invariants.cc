#include "core/ledger/invariants.h"

#include <cstdint>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/status_macros.h"

namespace kvpool {
namespace {

template <typename Expected, typename Actual>
absl::Status Same(absl::string_view what, Expected expected, Actual actual) {
  if (static_cast<uint64_t>(expected) == static_cast<uint64_t>(actual)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("ledger: ", what, " is ", static_cast<uint64_t>(actual),
                                          ", but ", static_cast<uint64_t>(expected),
                                          " by recount"));
}

// One pass over everything, which collects what the tables' own counts are compared with.
class Recount {
 public:
  explicit Recount(const LedgerState& state)
      : state_(state),
        blocks_(state.references.blocks()),
        holders_(state.references.holders()),
        references_(blocks_.num_blocks(), 0),
        claims_(blocks_.num_blocks(), 0) {}

  absl::Status Run() {
    for (const auto& [serial, slot] : state_.sessions.by_serial()) {
      KVPOOL_RETURN_IF_ERROR(CheckSession(state_.sessions.at(slot)));
    }
    KVPOOL_RETURN_IF_ERROR(Same("live sessions", live_sessions_, state_.sessions.live_count()));
    KVPOOL_RETURN_IF_ERROR(
        Same("unfilled guarantees", unfilled_, state_.references.unfilled_guarantees()));
    KVPOOL_RETURN_IF_ERROR(CheckFills());
    KVPOOL_RETURN_IF_ERROR(CheckBlocks());
    KVPOOL_RETURN_IF_ERROR(CheckTenants());
    KVPOOL_RETURN_IF_ERROR(state_.references.cache().CheckInvariants());
    return Same("pending calls", state_.waits.size() + state_.fills.size() + state_.pins.size(),
                pending_ + answered_fills_ + granted_pins_);
  }

 private:
  absl::Status CheckList(const Session& session, const HolderList& list, bool is_claims) {
    HolderSlot previous = kNoHolder;
    uint32_t count = 0;
    for (HolderSlot slot = list.head; slot != kNoHolder; slot = holders_.at(slot).next) {
      const Holder& holder = holders_.at(slot);
      const BlockId block = holders_.block(slot);
      KVPOOL_RETURN_IF_ERROR(Same("a holder's session", session.slot, holder.session));
      KVPOOL_RETURN_IF_ERROR(Same("a holder's previous", previous, holder.previous));
      KVPOOL_RETURN_IF_ERROR(Same("a holder found", slot, holders_.Find(block, session.slot)));
      KVPOOL_RETURN_IF_ERROR(Same("a holder without references", is_claims, holder.count == 0));
      references_[ToIndex(block)] += holder.count;
      session_references_ += holder.count;
      if (is_claims) ++claims_[ToIndex(block)];
      previous = slot;
      if (++count > blocks_.num_blocks()) return absl::InternalError("ledger: a list is a cycle");
    }
    if (!is_claims) KVPOOL_RETURN_IF_ERROR(Same("held blocks", count, session.held_blocks));
    return absl::OkStatus();
  }

  absl::Status CheckSession(const Session& session) {
    if (session.is_live) ++live_sessions_;
    unfilled_ += session.unfilled();
    session_references_ = 0;
    KVPOOL_RETURN_IF_ERROR(CheckList(session, session.held, /*is_claims=*/false));
    KVPOOL_RETURN_IF_ERROR(CheckList(session, session.claims, /*is_claims=*/true));
    KVPOOL_RETURN_IF_ERROR(Same("a session's references", session_references_, session.references));
    uint32_t members_alive = 0;
    for (const auto& [serial, slot] : session.members) {
      const Session& member = state_.sessions.at(slot);
      KVPOOL_RETURN_IF_ERROR(Same("a member's parent", session.slot, member.parent));
      if (!member.is_vouched && !member.processes.empty()) ++members_alive;
    }
    KVPOOL_RETURN_IF_ERROR(Same("members alive", members_alive, session.members_alive));
    KVPOOL_RETURN_IF_ERROR(CheckClaimants(session));
    pending_ += session.pending.size();
    if (session.is_live) {
      const bool expires = !session.attached_to.has_value() && session.running_calls == 0;
      return Same("a session that expires", expires, state_.sessions.deadline(session).has_value());
    }
    KVPOOL_RETURN_IF_ERROR(Same("an ended session's pending calls", 0U, session.pending.size()));
    return Same("an ended session's guarantee", 0U, session.guarantee);
  }

  absl::Status CheckClaimants(const Session& session) {
    for (const auto& [order, slot] : session.claimants) {
      const Session& member = state_.sessions.at(slot);
      KVPOOL_RETURN_IF_ERROR(Same("a claimant's parent", session.slot, member.parent));
      KVPOOL_RETURN_IF_ERROR(Same("a claimant's order", order, member.claim_order));
      KVPOOL_RETURN_IF_ERROR(Same("a claimant's life", false, member.is_live || member.is_vouched));
    }
    if (session.claimants.empty()) {
      return Same("blocks taken since no member ended", 0U, session.taken.size());
    }
    for (const auto& [slot, ends] : session.taken) {
      const Holder& holder = holders_.at(slot);
      KVPOOL_RETURN_IF_ERROR(Same("the holder of a block taken", session.slot, holder.session));
      KVPOOL_RETURN_IF_ERROR(Same("a block taken and not held", false, holder.count == 0));
    }
    return absl::OkStatus();
  }

  absl::Status CheckFills() {
    for (const auto& [id, fill] : state_.fills) {
      const Session* session = state_.sessions.Find(fill.session);
      if (session == nullptr || !session->is_live) ++answered_fills_;
      for (const BlockId block : fill.filled) {
        KVPOOL_RETURN_IF_ERROR(Same("the pin of a fill", true, state_.pin_table.is_pinned(block)));
      }
    }
    for (const auto& [id, pin] : state_.pins) {
      if (state_.pin_table.is_granted(id)) ++granted_pins_;
    }
    return absl::OkStatus();
  }

  absl::Status CheckBlocks() {
    uint32_t held = 0;
    uint32_t cached = 0;
    uint32_t quarantined = 0;
    uint32_t free_with_record = 0;
    for (uint32_t i = 0; i < blocks_.num_blocks(); ++i) {
      const BlockId block{i};
      const BlockRecord& record = blocks_.record(block);
      const BlockState state = blocks_.state(block);
      KVPOOL_RETURN_IF_ERROR(Same("a block's references", references_[i], record.references));
      KVPOOL_RETURN_IF_ERROR(Same("a block's claims", claims_[i], record.claims));
      KVPOOL_RETURN_IF_ERROR(Same("a block's pin", state_.pin_table.is_pinned(block),
                                  record.has(BlockRecord::kPinned)));
      held += state == BlockState::kHeld ? 1 : 0;
      quarantined += state == BlockState::kQuarantined ? 1 : 0;
      if (state == BlockState::kCached) {
        ++cached;
        ++cached_blocks_[ToIndex(record.tenant)];
      }
      if (record.tenant != kNoTenant && state != BlockState::kFree) {
        ++used_blocks_[ToIndex(record.tenant)];
      }
      if (state == BlockState::kFree && blocks_.has_record(block)) ++free_with_record;
    }
    KVPOOL_RETURN_IF_ERROR(Same("the held blocks", held, blocks_.held_count()));
    KVPOOL_RETURN_IF_ERROR(Same("the cached blocks", cached, blocks_.cached_count()));
    KVPOOL_RETURN_IF_ERROR(
        Same("the quarantined blocks", quarantined, blocks_.quarantined_count()));
    const std::vector<BlockId> stack = blocks_.FreeStack();
    for (const BlockId block : stack) {
      KVPOOL_RETURN_IF_ERROR(Same("a free block's state", BlockState::kFree, blocks_.state(block)));
    }
    return Same("the free stack", free_with_record, stack.size());
  }

  absl::Status CheckTenants() {
    for (const auto& [serial, slot] : state_.sessions.by_serial()) {
      const TenantSlot tenant = state_.sessions.at(slot).tenant;
      KVPOOL_RETURN_IF_ERROR(Same("a tenant's blocks", used_blocks_[ToIndex(tenant)],
                                  state_.tenants.used_blocks(tenant)));
      KVPOOL_RETURN_IF_ERROR(Same("a tenant's cached blocks", cached_blocks_[ToIndex(tenant)],
                                  state_.tenants.cached_blocks(tenant)));
    }
    return absl::OkStatus();
  }

  const LedgerState& state_;
  const BlockTable& blocks_;
  const HolderTable& holders_;
  std::vector<uint64_t> references_;  // By block.
  std::vector<uint32_t> claims_;
  std::map<uint32_t, uint64_t> used_blocks_;  // By tenant.
  std::map<uint32_t, uint64_t> cached_blocks_;
  uint64_t session_references_ = 0;  // Of the session at hand.
  uint64_t unfilled_ = 0;
  uint32_t live_sessions_ = 0;
  size_t pending_ = 0;
  size_t answered_fills_ = 0;
  size_t granted_pins_ = 0;
};

}  // namespace

absl::Status CheckLedger(const LedgerState& state) { return Recount(state).Run(); }

}  // namespace kvpool
