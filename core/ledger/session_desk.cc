#include "core/ledger/session_desk.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool {
namespace {

absl::Status NothingLeftError(const SessionId& id) {
  return MakeError(absl::StatusCode::kNotFound, {.reason = Reason::kSessionUnknown},
                   absl::StrCat("nothing is left of session ", id.Short()));
}

}  // namespace

absl::StatusOr<Duration> SessionDesk::Open(const OpenSessionCall& call, TimePoint now) {
  KVPOOL_ASSIGN_OR_RETURN(const SessionSlot parent, FindParent(call));
  KVPOOL_RETURN_IF_ERROR(CheckOpen(call, now));
  const LedgerLimits& limits = state_.options.limits;
  const Duration ttl = std::clamp(call.ttl, limits.min_ttl, limits.max_ttl);
  Session& session = state_.sessions.Open(call, ttl, parent, now);
  state_.references.SetGuarantee(session, call.guaranteed_blocks);
  return ttl;
}

absl::StatusOr<SessionSlot> SessionDesk::FindParent(const OpenSessionCall& call) const {
  if (!call.join.has_value()) return kNoSession;
  KVPOOL_ASSIGN_OR_RETURN(
      const Session* parent,
      state_.sessions.PeekHolding({.session = *call.join, .tenant = call.tenant}));
  if (!call.model_id.empty()) {
    return absl::InvalidArgumentError("model_id must be unset where a session is joined");
  }
  if (call.guaranteed_blocks > 0) {
    return absl::InvalidArgumentError("guaranteed_blocks must be unset where a session is joined");
  }
  return parent->slot;
}

absl::Status SessionDesk::CheckOpen(const OpenSessionCall& call, TimePoint now) {
  const LedgerOptions& options = state_.options;
  const uint32_t guarantee = call.guaranteed_blocks;
  if (guarantee > options.num_blocks) {
    return absl::InvalidArgumentError(absl::StrCat("guaranteed_blocks ", guarantee,
                                                   " is more than the pool's ", options.num_blocks,
                                                   " blocks"));
  }
  if (options.max_blocks_per_tenant > 0 && guarantee > options.max_blocks_per_tenant) {
    return absl::InvalidArgumentError(
        absl::StrCat("guaranteed_blocks ", guarantee, " is more than the ",
                     options.max_blocks_per_tenant, " that a tenant may have"));
  }
  if (state_.sessions.size() >= options.limits.max_sessions) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, {.reason = Reason::kLimit},
        absl::StrCat(options.limits.max_sessions, " sessions are open or still claim blocks"));
  }
  if (state_.sessions.count(call.process) >= options.limits.max_process_sessions) {
    return MakeError(absl::StatusCode::kResourceExhausted, {.reason = Reason::kLimit},
                     absl::StrCat("the process has ", options.limits.max_process_sessions,
                                  " sessions in this pool, the most that one may have"));
  }
  const auto is_short = [&] {
    return state_.references.unfilled_guarantees() + guarantee >
           state_.references.blocks().obtainable_count();
  };
  while (guarantee > 0 && is_short() && reclaimer_.has_work()) {
    reclaimer_.Run(options.limits.reclaim_slice, now);
    allocs_.Serve(now);
  }
  if (guarantee == 0 || !is_short()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted, {.reason = Reason::kGuarantee},
                   absl::StrCat("cannot guarantee ", guarantee,
                                " blocks: ", state_.references.blocks().obtainable_count(),
                                " are free or cached and ", state_.references.unfilled_guarantees(),
                                " guaranteed already"));
}

absl::Status SessionDesk::Attach(const Caller& caller, ProcessId process, TimePoint now) {
  KVPOOL_ASSIGN_OR_RETURN(Session * session, state_.sessions.FindLive(caller, now));
  if (session->attached_to.has_value()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kAttached},
                     absl::StrCat("session ", caller.session.Short(), " has a stream already"));
  }
  session->attached_to = process;
  state_.sessions.AddProcess(*session, process);
  state_.sessions.Touch(*session, now);
  return absl::OkStatus();
}

void SessionDesk::Detach(const SessionId& id, TimePoint now) {
  Session* session = state_.sessions.Find(id);
  if (session == nullptr || !session->is_live) return;
  End(*session, SessionEnd::kDetached, /*vouched=*/false, {now, now});
}

absl::Status SessionDesk::Close(const Caller& caller, TimePoint now) {
  KVPOOL_ASSIGN_OR_RETURN(Session * session,
                          state_.sessions.FindOfTenant(caller.session, caller.tenant));
  if (session->is_vouched) return NothingLeftError(caller.session);
  const SessionSlot parent = session->parent;
  if (session->is_live) {
    End(*session, SessionEnd::kClosed, /*vouched=*/true, {now, now});
  } else {
    VouchForAll(*session, {now, now});
  }
  SettleParent(parent, {now, now});
  return absl::OkStatus();
}

absl::Status SessionDesk::Terminate(const SessionId& id, bool release_claims, TimePoint now) {
  Session* session = state_.sessions.Find(id);
  if (session == nullptr || session->is_vouched) return NothingLeftError(id);
  const SessionSlot parent = session->parent;
  if (session->is_live) {
    End(*session, SessionEnd::kTerminated, release_claims, {now, now});
  } else if (release_claims) {
    VouchForAll(*session, {now, now});
  }
  SettleParent(parent, {now, now});
  return absl::OkStatus();
}

void SessionDesk::ProcessGone(ProcessId process, TimePoint now) {
  for (const SessionId& id : state_.sessions.DropProcess(process, now)) {
    // The end of one may have been the end of another.
    Session* session = state_.sessions.Find(id);
    if (session == nullptr) continue;
    const SessionSlot parent = session->parent;
    if (session->is_live && session->attached_to == process) {
      End(*session, SessionEnd::kProcessGone, /*vouched=*/false, {now, now});
    } else {
      Settle(*session, {now, now});
    }
    SettleParent(parent, {now, now});
  }
}

void SessionDesk::FallDue(SessionSlot slot, const Moment& moment) {
  Session& session = state_.sessions.at(slot);
  const SessionSlot parent = session.parent;
  if (session.is_live) {
    End(session, SessionEnd::kExpired, /*vouched=*/false, moment);
  } else {
    Vouch(session, moment);
  }
  SettleParent(parent, moment);
}

void SessionDesk::End(Session& session, SessionEnd reason, bool vouched, const Moment& moment) {
  state_.sessions.MarkEnded(session, reason);
  state_.events.emplace_back(SessionEnded{session.id, reason});
  EndPending(session, moment.now);
  state_.references.SetGuarantee(session, 0);
  session.retries.Clear();
  if (session.parent != kNoSession && reason != SessionEnd::kClosed &&
      reason != SessionEnd::kParentEnded) {
    Session& parent = state_.sessions.at(session.parent);
    state_.events.emplace_back(MemberGone{parent.id});
    if (!vouched) {
      state_.claims.Begin(session);
      allocs_.ClaimsChanged(parent);
    }
  }
  if (vouched) MarkVouched(session);
  EndMembers(session, vouched, moment);
  if (vouched || !Settle(session, moment)) reclaimer_.Begin(session, moment.now);
}

void SessionDesk::EndPending(Session& session, TimePoint now) {
  const absl::Status status =
      MakeError(absl::StatusCode::kNotFound, {.reason = Reason::kSessionUnknown},
                absl::StrCat("session ", session.id.Short(), " ended meanwhile"));
  while (!session.pending.empty()) {
    const PendingId id = *session.pending.begin();
    if (!allocs_.Abandon(session, id, status, now)) pins_.Abandon(id, status, now);
  }
}

void SessionDesk::EndMembers(Session& session, bool vouched, const Moment& moment) {
  const SessionEnd reason =
      session.end_reason == SessionEnd::kClosed ? SessionEnd::kClosed : SessionEnd::kParentEnded;
  const std::map<uint64_t, SessionSlot> members = session.members;
  for (const auto& [serial, slot] : members) {
    Session& member = state_.sessions.at(slot);
    if (member.is_live) {
      End(member, reason, vouched, moment);
    } else if (vouched && !member.is_vouched) {
      Vouch(member, moment);
    }
  }
}

void SessionDesk::VouchForAll(Session& session, const Moment& moment) {
  MarkVouched(session);
  EndMembers(session, /*vouched=*/true, moment);
  reclaimer_.Begin(session, moment.now);
}

void SessionDesk::Vouch(Session& session, const Moment& moment) {
  MarkVouched(session);
  reclaimer_.Begin(session, moment.now);
}

void SessionDesk::MarkVouched(Session& session) {
  session.is_vouched = true;
  state_.sessions.ClearDeadline(session);
  state_.sessions.UpdateParent(session);
  state_.claims.End(session);
  if (session.parent != kNoSession) allocs_.ClaimsChanged(state_.sessions.at(session.parent));
}

bool SessionDesk::Settle(Session& session, const Moment& moment) {
  if (session.is_live || session.is_vouched || session.has_process()) return false;
  const TimePoint end =
      session.last_gone.has_value() ? *session.last_gone + state_.options.claim_grace : moment.due;
  if (end > moment.due) {
    state_.sessions.SetDeadline(session, end);
    return false;
  }
  Vouch(session, moment);
  return true;
}

void SessionDesk::SettleParent(SessionSlot parent, const Moment& moment) {
  if (parent != kNoSession && state_.sessions.has(parent)) {
    Settle(state_.sessions.at(parent), moment);
  }
}

}  // namespace kvpool
