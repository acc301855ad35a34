#include "core/ledger/alloc_desk.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

// What the session has yet to take of its guarantee; negative where it holds more.
int64_t UnfilledOf(const Session& session) {
  return int64_t{session.guarantee} - session.held_blocks;
}

Demand DemandOf(const WaitingCall& call) {
  return {.count = call.count,
          .fill = call.fill,
          .release = call.release,
          .prefix = call.prefix.has_value() ? &*call.prefix : nullptr,
          .max_new_blocks = call.max_new_blocks,
          .key = call.key,
          .request = call.request};
}

absl::Status AbortedError() {
  return absl::AbortedError("a repeat of the call, under the same key, took its place");
}

}  // namespace

absl::StatusOr<AllocOutcome> AllocDesk::Alloc(Session& session, const AllocCall& call,
                                              TimePoint now) {
  KVPOOL_RETURN_IF_ERROR(CheckArguments(session, call));
  const uint64_t request = call.idempotency_key == 0 ? 0 : KeyedCalls::Hash(call);
  KVPOOL_ASSIGN_OR_RETURN(const std::optional<AllocOutcome> repeated,
                          Repeat(session, call, request, now));
  if (repeated.has_value()) return *repeated;
  const Demand demand = {.count = call.count,
                         .fill = call.fill,
                         .release = call.release,
                         .prefix = call.prefix,
                         .max_new_blocks = call.max_new_blocks,
                         .key = call.idempotency_key,
                         .request = request};
  const absl::StatusOr<Grant> grant = JudgeReclaiming(session, call, demand, now);
  if (grant.ok()) {
    AllocOutcome outcome = grants_.Give(session, demand, *grant, PendingId{}, now);
    if (outcome.pending != PendingId{}) return outcome;
    // What `release` freed beyond the call's need is for those who wait.
    Serve(now);
    outcome.answer.available = allowance_.Available(session);
    if (demand.key != 0) keys_.Remember(session, demand.key, request, outcome.answer);
    return outcome;
  }
  const bool waits = call.may_wait() && GetErrorDetail(grant.status()).reason == Reason::kPoolFull;
  if (!waits) return grant.status();
  return Wait(session, call, request, now);
}

absl::Status AllocDesk::CheckArguments(const Session& session, const AllocCall& call) const {
  const LedgerOptions& options = state_.options;
  if (call.count > options.num_blocks) {
    return MakeError(absl::StatusCode::kInvalidArgument, {},
                     absl::StrCat("count ", call.count, " is more than the pool's ",
                                  options.num_blocks, " blocks"));
  }
  if (call.count > options.limits.max_blocks_per_call) {
    return MakeError(absl::StatusCode::kInvalidArgument, {},
                     absl::StrCat("count ", call.count, " is more than ",
                                  options.limits.max_blocks_per_call, " blocks a call"));
  }
  if (call.allow_partial && call.may_wait()) {
    return MakeError(absl::StatusCode::kInvalidArgument, {},
                     "wait and allow_partial exclude each other");
  }
  if (call.prefix == nullptr) return absl::OkStatus();
  KVPOOL_CHECK(call.queue == WaitQueue::kAdmit && call.release.empty() && !call.allow_partial);
  return SessionTable::RequireModel(session);
}

absl::StatusOr<std::optional<AllocOutcome>> AllocDesk::Repeat(Session& session,
                                                              const AllocCall& call,
                                                              uint64_t request, TimePoint now) {
  KVPOOL_ASSIGN_OR_RETURN(const KeyedAnswer* answer,
                          keys_.Find(session, call.idempotency_key, request));
  if (answer != nullptr) {
    return AllocOutcome{.pending = {}, .answer = std::get<AllocAnswer>(*answer)};
  }
  const auto pending = session.pending_keys.find(call.idempotency_key);
  if (pending == session.pending_keys.end()) return std::nullopt;
  return TakePlace(session, pending->second, call, now);
}

AllocOutcome AllocDesk::TakePlace(Session& session, PendingId first, const AllocCall& call,
                                  TimePoint now) {
  const PendingId id = state_.NextPending();
  PendingId answered = first;
  if (state_.waits.Find(first) != nullptr) {
    const Duration wait = std::min(call.wait.value_or(Duration{}), state_.options.limits.max_wait);
    state_.waits.Replace(first, id, now + wait);
    session.pending.erase(first);
    session.pending.insert(id);
    session.pending_keys[call.idempotency_key] = id;
  } else {
    answered = std::exchange(state_.fills.at(first).answer_to, id);
  }
  state_.events.emplace_back(AllocDone{answered, AbortedError()});
  return {.pending = id, .answer = {}};
}

absl::StatusOr<Grant> AllocDesk::JudgeReclaiming(Session& session, const AllocCall& call,
                                                 const Demand& demand, TimePoint now) {
  while (true) {
    KVPOOL_ASSIGN_OR_RETURN(const DropEffect effect,
                            state_.references.CheckDrop(session, call.release));
    const bool is_first = state_.waits.is_clear(call.queue);
    KVPOOL_ASSIGN_OR_RETURN(Grant grant, grants_.Plan(session, demand));
    const absl::StatusOr<uint32_t> count = allowance_.Judge(
        session, grant.taken(), call.allow_partial, effect, is_first, grant.effect.shared);
    const bool is_short = !count.ok() || *count < grant.taken();
    if (!is_short || !reclaimer_.has_work()) {
      if (!count.ok()) return count.status();
      // Partial ones have no prefix.
      if (is_short) grant.new_count = *count;
      return grant;
    }
    reclaimer_.Run(state_.options.limits.reclaim_slice, now);
    // What came free is for those who wait before this call, then for it.
    Serve(now, call.queue);
  }
}

absl::StatusOr<AllocOutcome> AllocDesk::Wait(Session& session, const AllocCall& call,
                                             uint64_t request, TimePoint now) {
  const LedgerLimits& limits = state_.options.limits;
  if (state_.waits.size() >= limits.max_waiting_calls) {
    return MakeError(absl::StatusCode::kResourceExhausted, {.reason = Reason::kLimit},
                     absl::StrCat(limits.max_waiting_calls, " calls wait already"));
  }
  const size_t named = call.prefix == nullptr ? call.release.size() : call.prefix->blocks.size();
  const size_t all_named = state_.waits.named_count() + named;
  if (all_named > limits.max_named_blocks) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, {.reason = Reason::kLimit},
        absl::StrCat("calls that wait would name ", all_named, " blocks and keys with the ", named,
                     " of this one, at most ", limits.max_named_blocks, " are possible"));
  }
  const PendingId id = state_.NextPending();
  WaitingCall waiting;
  waiting.id = id;
  waiting.session = session.slot;
  waiting.queue = call.queue;
  waiting.count = call.count;
  waiting.fill = call.fill;
  waiting.release.assign(call.release.begin(), call.release.end());
  if (call.prefix != nullptr) waiting.prefix = *call.prefix;
  waiting.max_new_blocks = call.max_new_blocks;
  waiting.key = call.idempotency_key;
  waiting.request = request;
  waiting.deadline = now + std::min(*call.wait, limits.max_wait);
  waiting.has_guarantee = session.guarantee > 0;
  WaitingCall& added = state_.waits.Add(std::move(waiting));
  if (added.has_guarantee) {
    // Where there is no quota, one line does for all tenants.
    const bool has_quota = state_.options.max_blocks_per_tenant > 0;
    state_.guaranteed_waits.Add(
        added.number, {.session = session.slot, .tenant = has_quota ? session.tenant : kNoTenant});
    state_.guaranteed_waits.SetUnfilled(session.slot, UnfilledOf(session));
    Evaluate(added);
  }
  state_.sessions.BeginRunning(session);
  session.pending.insert(id);
  if (call.idempotency_key != 0) session.pending_keys[call.idempotency_key] = id;
  return AllocOutcome{.pending = id, .answer = {}};
}

void AllocDesk::Serve(TimePoint now, WaitQueue last) {
  do {
    WaitingCall* call = state_.waits.front();
    while (call != nullptr && call->queue <= last && ServeOne(*call, /*is_first=*/true, now)) {
      call = state_.waits.front();
    }
  } while (ServeGuaranteed(now));
}

bool AllocDesk::ServeGuaranteed(TimePoint now) {
  const auto room = [this](TenantSlot tenant) {
    const uint32_t free = state_.references.blocks().obtainable_count();
    return tenant == kNoTenant ? free : std::min(free, allowance_.QuotaRoom(tenant, {}));
  };
  while (true) {
    Refresh();
    const std::optional<uint64_t> found = state_.guaranteed_waits.Find(room);
    if (!found.has_value()) return false;
    // A look at what it releases may show that it must wait on.
    WaitingCall& call = state_.waits.at(*found);
    if (ServeOne(call, /*is_first=*/false, now)) return true;
    // What it finds may be shared too often by now: it is looked at again in its turn.
    if (call.prefix.has_value()) state_.guaranteed_waits.SetNeed(call.number, std::nullopt);
    KVPOOL_CHECK(state_.guaranteed_waits.Find(room) != found);
  }
}

bool AllocDesk::ServeOne(WaitingCall& call, bool is_first, TimePoint now) {
  Session& session = state_.sessions.at(call.session);
  const absl::StatusOr<std::optional<Grant>> grant = JudgeWaiting(call, session, is_first);
  if (grant.ok() && !grant->has_value()) return false;
  // One whose turn it is not keeps its place: what is wrong may be right by then.
  if (!grant.ok() && !is_first) return false;
  const WaitingCall served = Leave(session, call.id, now);
  if (!grant.ok()) {
    state_.events.emplace_back(AllocDone{served.id, grant.status()});
    return true;
  }
  AllocOutcome outcome = grants_.Give(session, DemandOf(served), **grant, served.id, now);
  if (outcome.pending != PendingId{}) return true;
  outcome.answer.available = allowance_.Available(session);
  if (served.key != 0) keys_.Remember(session, served.key, served.request, outcome.answer);
  state_.events.emplace_back(AllocDone{served.id, std::move(outcome.answer)});
  return true;
}

absl::StatusOr<std::optional<Grant>> AllocDesk::JudgeWaiting(WaitingCall& call,
                                                             const Session& session,
                                                             bool is_first) {
  KVPOOL_ASSIGN_OR_RETURN(const DropEffect effect, EffectOf(call));
  const Demand demand = DemandOf(call);
  // Whoever lets go of a block looks here; going through a long prefix takes milliseconds.
  const std::optional<TakenBounds> taken = grants_.BoundTaken(demand);
  if (taken.has_value() && allowance_.MustBeFull(session, *taken, effect, is_first)) {
    return std::nullopt;
  }
  KVPOOL_ASSIGN_OR_RETURN(Grant grant, grants_.Plan(session, demand));
  const uint32_t count = grant.taken();
  // An error takes longer to make than all the rest.
  if (allowance_.IsFull(session, count, effect, is_first, grant.effect.shared)) return std::nullopt;
  KVPOOL_RETURN_IF_ERROR(
      allowance_
          .Judge(session, count, /*allow_partial=*/false, effect, is_first, grant.effect.shared)
          .status());
  return grant;
}

const absl::StatusOr<DropEffect>& AllocDesk::EffectOf(WaitingCall& call) {
  Refresh();
  if (!call.effect.has_value()) Evaluate(call);
  return *call.effect;
}

void AllocDesk::ClaimsChanged(const Session& session) {
  for (const PendingId id : session.pending) {
    WaitingCall* call = state_.waits.Find(id);
    if (call == nullptr || call->release.empty()) continue;
    call->effect.reset();
    if (call->has_guarantee) Evaluate(*call);
  }
}

void AllocDesk::Evaluate(WaitingCall& call) {
  state_.references.Watch(call.release);
  call.effect = state_.references.CheckDrop(state_.sessions.at(call.session), call.release);
  if (!call.has_guarantee) return;
  std::optional<GuaranteedCalls::Need> need;
  if (call.effect->ok()) {
    const DropEffect& effect = **call.effect;
    need = {.guarantee = int64_t{call.count} - effect.let_go,
            .blocks = call.count - std::min(call.count, effect.freed)};
  }
  state_.guaranteed_waits.SetNeed(call.number, need);
}

void AllocDesk::Refresh() {
  const References& references = state_.references;
  if (references.changed_blocks().empty() && references.changed_sessions().empty()) return;
  for (const SessionSlot slot : references.changed_sessions()) {
    if (!state_.sessions.has(slot)) continue;
    state_.guaranteed_waits.SetUnfilled(slot, UnfilledOf(state_.sessions.at(slot)));
  }
  std::vector<uint64_t> changed;  // Calls to look at again.
  for (const BlockId block : references.changed_blocks()) {
    for (const uint64_t number : state_.waits.Offering(block)) {
      WaitingCall& call = state_.waits.at(number);
      if (call.has_guarantee && call.effect.has_value()) changed.push_back(number);
      call.effect.reset();
    }
  }
  state_.references.ClearChanged();
  for (const uint64_t number : changed) Evaluate(state_.waits.at(number));
}

bool AllocDesk::Cancel(PendingId id, TimePoint now) {
  WaitingCall* call = state_.waits.Find(id);
  if (call == nullptr) return false;
  Leave(state_.sessions.at(call->session), id, now);
  return true;
}

void AllocDesk::EndWait(PendingId id, TimePoint now) {
  WaitingCall& call = *state_.waits.Find(id);
  Session& session = state_.sessions.at(call.session);
  const absl::StatusOr<DropEffect>& effect = EffectOf(call);
  const absl::StatusOr<Grant> grant = grants_.Plan(session, DemandOf(call));
  uint32_t room = 0;
  if (effect.ok() && grant.ok()) {
    room = allowance_.Room(session, *effect, state_.waits.is_front(call), grant->effect.shared);
  }
  const absl::Status status = Allowance::FullError(grant.ok() ? grant->taken() : call.count, room);
  Leave(session, id, now);
  state_.events.emplace_back(AllocDone{id, status});
}

bool AllocDesk::Abandon(Session& session, PendingId id, const absl::Status& status, TimePoint now) {
  PendingId answer_to = id;
  if (state_.waits.Find(id) != nullptr) {
    Leave(session, id, now);
  } else if (const auto fill = state_.fills.find(id); fill != state_.fills.end()) {
    answer_to = fill->second.answer_to;
    grants_.Forget(session, id, fill->second.key, now);
  } else {
    return false;
  }
  state_.events.emplace_back(AllocDone{answer_to, status});
  return true;
}

WaitingCall AllocDesk::Leave(Session& session, PendingId id, TimePoint now) {
  WaitingCall call = state_.waits.Remove(id);
  if (call.has_guarantee) state_.guaranteed_waits.Remove(call.number);
  grants_.Forget(session, id, call.key, now);
  return call;
}

}  // namespace kvpool
