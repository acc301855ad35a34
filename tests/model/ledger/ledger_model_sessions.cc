#include <algorithm>

#include "absl/strings/str_cat.h"

#include "tests/model/ledger/call_text.h"
#include "tests/model/ledger/ledger_model.h"

namespace kvpool::test {
namespace {

using Kind = ExpectedEvent::Kind;

}  // namespace

// As CheckSession. A call on a known session begins its ttl anew, even one that fails.
Verdicts LedgerModel::Admit(const Caller& caller, bool may_be_joined) {
  Verdicts verdicts = CheckSession(state_, caller, may_be_joined);
  if (verdicts.front().code != absl::StatusCode::kNotFound &&
      verdicts.front().code != absl::StatusCode::kPermissionDenied) {
    state_.sessions[caller.session].last_call = now_;
  }
  return verdicts;
}

void LedgerModel::OpenSession(const OpenSessionCall& call, TimePoint now,
                              const absl::StatusOr<Duration>& result, const Seen& seen) {
  Begin(now, seen);
  if (call.guaranteed_blocks > 0) may_drop_.reset();
  Settle();
  Judge("OpenSession", CheckOpen(state_, call), result.status());
  if (result.ok()) {
    const LedgerLimits& limits = state_.options.limits;
    const Duration ttl = std::clamp(call.ttl, limits.min_ttl, limits.max_ttl);
    if (*result != ttl) Complain(absl::StrCat("OpenSession grants ", result->count()));
    state_.sessions[call.id] = {.tenant = std::string(call.tenant),
                                .client_name = std::string(call.client_name),
                                .model_id = std::string(call.model_id),
                                .pid = call.pid,
                                .uid = call.uid,
                                .open_time = now,
                                .last_call = now,
                                .ttl = ttl,
                                .processes = {},
                                .joined = call.join,
                                .guarantee = call.guaranteed_blocks};
    if (call.process != ProcessId{}) state_.sessions[call.id].processes.insert(call.process);
  }
  Finish();
}

void LedgerModel::Attach(const Caller& caller, ProcessId process, TimePoint now,
                         const absl::Status& result, const Seen& seen) {
  Begin(now, seen);
  Verdicts verdicts = Admit(caller, /*may_be_joined=*/true);
  if (verdicts.front().ok() && state_.sessions[caller.session].stream.has_value()) {
    verdicts = Error(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kAttached});
  }
  Judge("Attach", verdicts, result);
  if (result.ok() && verdicts.front().ok()) {
    Session& session = state_.sessions[caller.session];
    session.stream = process;
    session.processes.insert(process);
  }
  Finish();
}

void LedgerModel::AddProcess(const Caller& caller, ProcessId process, TimePoint now,
                             const absl::Status& result, const Seen& seen) {
  Begin(now, seen);
  const Verdicts verdicts = Admit(caller, /*may_be_joined=*/true);
  Judge("AddProcess", verdicts, result);
  if (verdicts.front().ok()) {
    Session& session = state_.sessions[caller.session];
    session.processes.insert(process);
  }
  Finish();
}

void LedgerModel::BeginCall(const Caller& caller, TimePoint now, const absl::Status& result,
                            const Seen& seen) {
  Begin(now, seen);
  const Verdicts verdicts = Admit(caller, /*may_be_joined=*/false);
  Judge("BeginCall", verdicts, result);
  if (verdicts.front().ok()) ++state_.sessions[caller.session].long_calls;
  Finish();
}

void LedgerModel::EndCall(const SessionId& id, TimePoint now, const Seen& seen) {
  Begin(now, seen);
  if (state_.IsLive(id)) {
    --state_.sessions[id].long_calls;
    state_.sessions[id].last_call = now;
  }
  Finish();
}

void LedgerModel::Detach(const SessionId& id, TimePoint now, const Seen& seen) {
  Begin(now, seen);
  if (state_.IsLive(id)) EndSession(id, SessionEnd::kDetached, /*is_vouched=*/false);
  Finish();
}

void LedgerModel::CloseSession(const Caller& caller, TimePoint now, const absl::Status& result,
                               const Seen& seen) {
  Begin(now, seen);
  const auto it = state_.sessions.find(caller.session);
  Verdicts verdicts = CheckVouch(state_, caller.session);
  if (it != state_.sessions.end() && absl::string_view(it->second.tenant) != caller.tenant) {
    verdicts = Error(absl::StatusCode::kPermissionDenied);
  }
  Judge("CloseSession", verdicts, result);
  if (result.ok() && complaint_.empty()) {
    if (it->second.is_live) EndSession(caller.session, SessionEnd::kClosed, /*is_vouched=*/true);
    Vouch(caller.session);
  }
  Finish();
}

void LedgerModel::TerminateSession(const SessionId& id, bool release_claims, TimePoint now,
                                   const absl::Status& result, const Seen& seen) {
  Begin(now, seen);
  Judge("TerminateSession", CheckVouch(state_, id), result);
  if (result.ok() && complaint_.empty()) {
    if (state_.IsLive(id)) EndSession(id, SessionEnd::kTerminated, release_claims);
    if (release_claims) Vouch(id);
  }
  Finish();
}

void LedgerModel::ProcessGone(ProcessId process, TimePoint now, const Seen& seen) {
  Begin(now, seen);
  for (auto& [id, session] : state_.sessions) {
    if (state_.Claimants(id).contains(process)) session.last_gone = now;
  }
  state_.gone.insert(process);
  std::vector<SessionId> ended;
  for (const auto& [id, session] : state_.sessions) {
    if (session.is_live && session.stream == process) ended.push_back(id);
  }
  for (const SessionId& id : ended) {
    if (state_.IsLive(id)) EndSession(id, SessionEnd::kProcessGone, /*is_vouched=*/false);
  }
  Finish();
}

// Ends a session and those that joined it.
void LedgerModel::EndSession(const SessionId& id, SessionEnd reason, bool is_vouched) {
  const std::optional<SessionId> joined = state_.sessions[id].joined;
  const SessionId holder = joined.value_or(id);
  std::vector<SessionId> ending = {id};
  for (const auto& [other, session] : state_.sessions) {
    if (session.joined == id) ending.push_back(other);
  }
  for (const SessionId& each : ending) {
    Session& session = state_.sessions[each];
    if (session.is_live) {
      const SessionEnd own =
          each == id || reason == SessionEnd::kClosed ? reason : SessionEnd::kParentEnded;
      expected_.push_back({.kind = Kind::kEnded, .session = each, .reason = own});
    }
    session.is_live = false;
    session.is_vouched |= is_vouched;
  }
  // In the name of its processes, and of those of the sessions that joined it.
  for (uint32_t i = 0; i < state_.blocks.size() && !state_.IsOver(id); ++i) {
    if (state_.RefCount(i, holder) > 0 && !state_.blocks[i].sealed.has_value()) {
      state_.sessions[id].claims.insert(i);
    }
  }
  if (joined.has_value() && reason != SessionEnd::kClosed && state_.IsLive(*joined)) {
    expected_.push_back({.kind = Kind::kMemberGone, .session = *joined});
  }
  EndCallsOf(id);
}

void LedgerModel::EndCallsOf(const SessionId& id) {
  for (auto& queue : state_.waiters) {
    for (size_t i = 0; i < queue.size();) {
      if (queue[i].call.caller.session == id) {
        EndWaiter(queue[i].id, Unknown());
      } else {
        ++i;
      }
    }
  }
  for (ModelState::Fill& fill : state_.fills) {
    if (fill.session != id || fill.answer == PendingId{}) continue;
    expected_.push_back({.kind = Kind::kAllocDone, .id = fill.answer, .verdicts = Unknown()});
    fill.answer = {};
  }
}

void LedgerModel::Vouch(const SessionId& id) {
  for (auto& [other, session] : state_.sessions) {
    if (other == id || session.joined == id) session.is_vouched = true;
  }
}

// What of a session that ended is to be dropped, each block once: its references, and where
// nobody is left to claim, its claims.
uint64_t LedgerModel::Leftovers(const SessionId& id) const {
  const Session& session = state_.sessions.at(id);
  const bool is_over = state_.IsOver(id);
  uint64_t count = 0;
  for (uint32_t i = 0; i < state_.blocks.size(); ++i) {
    count += state_.RefCount(i, id) > 0 || (is_over && session.claims.contains(i)) ? 1U : 0U;
  }
  return session.is_live ? 0 : count;
}

uint64_t LedgerModel::Leftovers() const {
  uint64_t count = state_.Left({}).size();
  for (const auto& [id, session] : state_.sessions) count += Leftovers(id);
  return count;
}

// Drops what the ledger has dropped of it: what of it goes first is the ledger's choice. A slice
// goes at once of what a call makes due: when sessions end, or claims that they left.
void LedgerModel::FollowReclaim() {
  const uint64_t slice = state_.options.limits.reclaim_slice;
  for (auto& [id, session] : state_.sessions) {
    if (session.is_live || (session.is_dropping && (session.is_over || !state_.IsOver(id)))) {
      continue;
    }
    session.is_dropping = true;
    session.is_over = state_.IsOver(id);
    const uint64_t leftovers = Leftovers(id);
    if (may_drop_.has_value() && begun_ == 0 && Leftovers() > 0) *may_drop_ += slice;
    begun_ += leftovers;
    must_drop_ = std::min(slice, begun_);
  }
  for (auto& [id, session] : state_.sessions) {
    if (session.is_live) continue;
    for (uint32_t i = 0; i < state_.blocks.size(); ++i) {
      const uint32_t left = SeenReferences(seen_->blocks[i], id);
      dropped_ += state_.RefCount(i, id) > 0 && left == 0 ? 1U : 0U;
      while (state_.RefCount(i, id) > left) DropRef(i, id, TraceOperation::kRelease);
      // Claims that were made end in slices; those yet to be made are made no more.
      if (state_.IsOver(id) && !(IsSliced() && seen_->blocks[i].claimed)) session.claims.erase(i);
    }
  }
  FreeAllDone();
}

// Where a session's end takes more than a slice, claims that do not show yet may keep it.
void LedgerModel::ForgetSessions() {
  for (auto it = state_.sessions.begin(); it != state_.sessions.end();) {
    const auto& [id, session] = *it;
    const bool is_left =
        IsSliced() ? state_.HeldBlocks(id) > 0 || !IsForgotten(id, *seen_) : Leftovers(id) > 0;
    if (session.is_live || !state_.IsOver(id) || is_left) {
      ++it;
      continue;
    }
    expected_.push_back({.kind = Kind::kForgotten, .session = id});
    it = state_.sessions.erase(it);
  }
}

}  // namespace kvpool::test
