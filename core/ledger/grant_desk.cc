#include "core/ledger/grant_desk.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

// How many blocks the demand takes beside those that were found.
uint32_t NewCount(const Demand& demand, uint32_t found) {
  const uint32_t rest = demand.count - found;
  return demand.max_new_blocks == 0 ? rest : std::min(rest, demand.max_new_blocks);
}

}  // namespace

absl::StatusOr<Grant> GrantDesk::Plan(const Session& session, const Demand& demand) const {
  Grant grant;
  if (demand.prefix != nullptr) {
    grant.found = state_.references.cache().Match(*demand.prefix, demand.count);
    KVPOOL_ASSIGN_OR_RETURN(grant.effect, state_.references.CheckAddFound(session, grant.found));
  }
  grant.new_count = NewCount(demand, static_cast<uint32_t>(grant.found.size()));
  return grant;
}

std::optional<TakenBounds> GrantDesk::BoundTaken(const Demand& demand) const {
  const References& references = state_.references;
  uint32_t found = 0;
  if (demand.prefix != nullptr) {
    found = static_cast<uint32_t>(references.cache().CountMatch(*demand.prefix, demand.count));
    if (!references.MayAddFound(found)) return std::nullopt;
  }
  const uint32_t new_count = NewCount(demand, found);
  // So many of those found are not cached at the most.
  const uint32_t others = references.blocks().findable_count() - references.blocks().cached_count();
  return TakenBounds{.least = new_count + found - std::min(found, others),
                     .most = new_count + found};
}

AllocOutcome GrantDesk::Give(Session& session, const Demand& demand, const Grant& grant,
                             PendingId id, TimePoint now) {
  const Cause cause = {demand.prefix == nullptr ? "Alloc" : "Acquire", session.id, now};
  for (const BlockRef& ref : demand.release) state_.claims.Drop(session, ref.block, cause);
  AllocAnswer answer;
  answer.blocks.reserve(grant.found.size() + grant.new_count);
  PrefixCache& cache = state_.references.cache();
  if (demand.prefix != nullptr) {
    if (demand.count > 0 && !demand.prefix->blocks.empty()) cache.CountRequest(now);
    answer.last_key = demand.prefix->LastKey(grant.found.size());
    answer.matched_blocks = static_cast<uint32_t>(grant.found.size());
  }
  // Held first: they are not what makes room.
  for (const BlockId block : grant.found) {
    state_.references.Add(session, block, TraceOperation::kAcquire, cause);
    cache.Use(block, now);
    answer.blocks.push_back(state_.references.RefOf(block));
  }
  evictor_.MakeRoom(session.tenant, grant.new_count, state_.options.max_blocks_per_tenant, cause);
  FillPlan plan;
  const Fill fill = demand.fill == Fill::kUnspecified ? state_.options.fill_on_alloc : demand.fill;
  for (uint32_t i = 0; i < grant.new_count; ++i) {
    answer.blocks.push_back(state_.references.Take(session, fill, plan, cause));
  }
  if (!plan.is_empty()) return BeginFill(session, demand, std::move(plan), std::move(answer), id);
  return {.pending = {}, .answer = std::move(answer)};
}

AllocOutcome GrantDesk::BeginFill(Session& session, const Demand& demand, FillPlan plan,
                                  AllocAnswer answer, PendingId id) {
  const bool is_new = id == PendingId{};
  if (is_new) id = state_.NextPending();
  PendingFill fill = {.session = session.id,
                      .answer_to = id,
                      .answer = std::move(answer),
                      .key = demand.key,
                      .request = demand.request,
                      .filled = plan.zero};
  fill.filled.insert(fill.filled.end(), plan.poison.begin(), plan.poison.end());
  for (const BlockId block : fill.filled) state_.references.SetKnown(block, false);
  pins_.BeginFill(id, fill.filled);
  state_.fills.emplace(id, std::move(fill));
  state_.events.emplace_back(
      FillNeeded{.id = id, .zero = std::move(plan.zero), .poison = std::move(plan.poison)});
  state_.sessions.BeginRunning(session);
  session.pending.insert(id);
  if (demand.key != 0) session.pending_keys[demand.key] = id;
  return {.pending = id, .answer = {}};
}

void GrantDesk::FillDone(PendingId id, const absl::Status& status, TimePoint now) {
  const auto found = state_.fills.find(id);
  KVPOOL_CHECK(found != state_.fills.end());
  PendingFill fill = std::move(found->second);
  state_.fills.erase(found);
  if (status.ok()) {
    for (const BlockId block : fill.filled) state_.references.SetKnown(block, true);
  }
  Session* session = state_.sessions.Find(fill.session);
  const bool is_answered = session == nullptr || !session->is_live;
  if (!is_answered && !status.ok()) {
    for (const BlockRef& ref : fill.answer.blocks) {
      if (!state_.references.CheckHeld(*session, ref, 0).ok()) continue;
      state_.claims.Drop(*session, ref.block, {"fill failed", session->id, now});
    }
  }
  pins_.EndFill(id, fill.session, now);
  if (is_answered) return;
  Forget(*session, id, fill.key, now);
  if (!status.ok()) {
    state_.events.emplace_back(AllocDone{fill.answer_to, status});
    return;
  }
  fill.answer.available = allowance_.Available(*session);
  if (fill.key != 0) keys_.Remember(*session, fill.key, fill.request, fill.answer);
  state_.events.emplace_back(AllocDone{fill.answer_to, std::move(fill.answer)});
}

void GrantDesk::Forget(Session& session, PendingId id, uint64_t key, TimePoint now) {
  session.pending.erase(id);
  if (key != 0) session.pending_keys.erase(key);
  if (session.is_live) state_.sessions.EndRunning(session, now);
}

}  // namespace kvpool
