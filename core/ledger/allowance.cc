#include "core/ledger/allowance.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "core/error.h"

namespace kvpool {
namespace {

uint32_t Less(uint32_t a, uint64_t b) { return a > b ? static_cast<uint32_t>(a - b) : 0; }

}  // namespace

uint32_t Allowance::Room(const Session& session, const DropEffect& effect, bool is_first,
                         uint32_t shared) const {
  const uint32_t free = state_.references.blocks().obtainable_count();
  const uint32_t let_go = session.held_blocks - effect.let_go + shared;
  // Blocks that it frees and takes again count as held when the rest is taken from the others.
  const uint32_t own = Less(session.guarantee, let_go + effect.freed);
  if (!is_first) {
    return std::min(Less(session.guarantee, let_go), effect.freed + std::min(own, free));
  }
  const uint64_t unfilled =
      state_.references.unfilled_guarantees() - session.unfilled() + uint64_t{own};
  return effect.freed + std::min(own, free) + Less(free, unfilled);
}

uint32_t Allowance::QuotaRoom(TenantSlot tenant, const DropEffect& effect) const {
  const uint32_t quota = state_.options.max_blocks_per_tenant;
  if (quota == 0) return state_.options.num_blocks;
  // Its cached blocks make room for it.
  const uint32_t used =
      state_.tenants.used_blocks(tenant) - state_.tenants.cached_blocks(tenant) - effect.freed;
  return Less(quota, used);
}

absl::StatusOr<uint32_t> Allowance::Judge(const Session& session, uint32_t count,
                                          bool allow_partial, const DropEffect& effect,
                                          bool is_first, uint32_t shared) const {
  const uint32_t quota = QuotaRoom(session.tenant, effect);
  const uint32_t room = Room(session, effect, is_first, shared);
  if (allow_partial) return std::min({count, quota, room});
  if (count > quota) {
    return MakeError(absl::StatusCode::kResourceExhausted, {.reason = Reason::kQuota},
                     absl::StrCat("tenant '", state_.tenants.name(session.tenant), "' may have ",
                                  quota, " blocks more, not ", count));
  }
  if (count > room) return FullError(count, room);
  return count;
}

bool Allowance::IsFull(const Session& session, uint32_t count, const DropEffect& effect,
                       bool is_first, uint32_t shared) const {
  return count <= QuotaRoom(session.tenant, effect) &&
         count > Room(session, effect, is_first, shared);
}

absl::Status Allowance::CheckAdd(const Session& session, const AddEffect& effect) const {
  if (effect.cached == 0) return absl::OkStatus();
  const uint32_t room = Room(session, {}, /*is_first=*/true, effect.shared);
  return effect.cached <= room ? absl::OkStatus() : FullError(effect.cached, room);
}

uint32_t Allowance::Available(const Session& session) const {
  return std::min(Room(session, {}, state_.waits.is_clear(WaitQueue::kGrow)),
                  QuotaRoom(session.tenant, {}));
}

absl::Status Allowance::FullError(uint32_t count, uint32_t room) {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   {.reason = Reason::kPoolFull, .available = room},
                   absl::StrCat("no room for ", count, " blocks: ", room, " could be had"));
}

}  // namespace kvpool
