#include "core/ledger/session_table.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/error.h"

namespace kvpool {
namespace {

absl::Status UnknownError(const SessionId& id) {
  return MakeError(absl::StatusCode::kNotFound, {.reason = Reason::kSessionUnknown},
                   absl::StrCat("session ", id.Short(), " is not known: closed, expired, ended, ",
                                "or of an earlier daemon"));
}

}  // namespace

Session& SessionTable::Open(const OpenSessionCall& call, Duration ttl, SessionSlot parent,
                            TimePoint now) {
  SessionSlot slot{static_cast<uint32_t>(slots_.size())};
  if (!unused_.empty()) {
    slot = unused_.back();
    unused_.pop_back();
  } else {
    slots_.emplace_back();
  }
  slots_[ToIndex(slot)] = std::make_unique<Session>();
  Session& session = at(slot);
  session.id = call.id;
  session.slot = slot;
  session.serial = ++last_serial_;
  session.tenant = tenants_.AddSession(call.tenant);
  session.client_name = std::string(call.client_name);
  session.model_id = std::string(call.model_id);
  session.pid = call.pid;
  session.uid = call.uid;
  session.open_time = now;
  session.ttl = ttl;
  session.parent = parent;
  if (parent != kNoSession) {
    session.joined = at(parent).id;
    at(parent).members.emplace(session.serial, slot);
  }
  const bool is_new = by_id_.emplace(call.id, slot).second;
  KVPOOL_CHECK(is_new);
  by_serial_.emplace(session.serial, slot);
  AddProcess(session, call.process);
  Touch(session, now);
  ++live_count_;
  return session;
}

void SessionTable::MarkEnded(Session& session, SessionEnd reason) {
  KVPOOL_CHECK(session.is_live);
  session.is_live = false;
  session.end_reason = reason;
  session.attached_to.reset();
  deadlines_.Clear(session.slot);
  --live_count_;
}

void SessionTable::Erase(Session& session) {
  KVPOOL_CHECK(!session.is_live && session.held.head == kNoHolder &&
               session.claims.head == kNoHolder && session.pending.empty());
  KVPOOL_CHECK(!session.counts_for_parent && !session.is_queued);
  for (const ProcessId process : session.processes) {
    const auto sessions = by_process_.find(process);
    sessions->second.erase(session.serial);
    if (sessions->second.empty()) by_process_.erase(sessions);
  }
  for (const auto& [serial, member] : session.members) {
    at(member).parent = kNoSession;
    at(member).counts_for_parent = false;
  }
  if (session.parent != kNoSession) at(session.parent).members.erase(session.serial);
  deadlines_.Clear(session.slot);
  tenants_.DropSession(session.tenant);
  by_id_.erase(session.id);
  by_serial_.erase(session.serial);
  unused_.push_back(session.slot);
  slots_[ToIndex(session.slot)].reset();
}

Session* SessionTable::Find(const SessionId& id) {
  return const_cast<Session*>(std::as_const(*this).Find(id));
}

const Session* SessionTable::Find(const SessionId& id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &at(found->second);
}

absl::StatusOr<Session*> SessionTable::FindOfTenant(const SessionId& id, absl::string_view tenant) {
  Session* session = Find(id);
  if (session == nullptr) return UnknownError(id);
  if (tenants_.name(session->tenant) != tenant) {
    return absl::PermissionDeniedError(
        absl::StrCat("session ", id.Short(), " is not of tenant '", tenant, "'"));
  }
  return session;
}

absl::StatusOr<Session*> SessionTable::FindLive(const Caller& caller, TimePoint now) {
  Session* session = Find(caller.session);
  if (session == nullptr || !session->is_live) return UnknownError(caller.session);
  if (tenants_.name(session->tenant) != caller.tenant) {
    return FindOfTenant(caller.session, caller.tenant);
  }
  Touch(*session, now);
  return session;
}

absl::StatusOr<Session*> SessionTable::FindHolding(const Caller& caller, TimePoint now) {
  absl::StatusOr<Session*> session = FindLive(caller, now);
  if (session.ok() && (*session)->is_joined()) return PeekHolding(caller).status();
  return session;
}

absl::StatusOr<const Session*> SessionTable::PeekHolding(const Caller& caller) const {
  const Session* session = Find(caller.session);
  if (session == nullptr || !session->is_live) return UnknownError(caller.session);
  if (tenants_.name(session->tenant) != caller.tenant) {
    return absl::PermissionDeniedError(absl::StrCat("session ", caller.session.Short(),
                                                    " is not of tenant '", caller.tenant, "'"));
  }
  if (session->is_joined()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kJoined},
                     absl::StrCat("session ", caller.session.Short(), " joined session ",
                                  session->joined.Short(), " and holds nothing of its own"));
  }
  return session;
}

absl::Status SessionTable::RequireModel(const Session& session) {
  if (!session.model_id.empty()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, {},
                   absl::StrCat("session ", session.id.Short(),
                                " was opened without a model_id, which prefixes need"));
}

void SessionTable::BeginRunning(Session& session) {
  if (session.running_calls++ == 0 && session.is_live) deadlines_.Clear(session.slot);
}

void SessionTable::EndRunning(Session& session, TimePoint now) {
  KVPOOL_CHECK(session.running_calls > 0);
  --session.running_calls;
  if (session.is_live) Touch(session, now);
}

void SessionTable::Touch(Session& session, TimePoint now) {
  if (session.attached_to.has_value() || session.running_calls > 0) {
    deadlines_.Clear(session.slot);
  } else {
    SetDeadline(session, now + session.ttl);
  }
}

void SessionTable::AddProcess(Session& session, ProcessId process) {
  if (process == ProcessId{}) return;
  session.processes.insert(process);
  by_process_[process].emplace(session.serial, session.slot);
  UpdateParent(session);
}

size_t SessionTable::count(ProcessId process) const {
  const auto found = by_process_.find(process);
  return found == by_process_.end() ? 0 : found->second.size();
}

std::vector<SessionId> SessionTable::DropProcess(ProcessId process, TimePoint now) {
  std::vector<SessionId> ids;
  const auto found = by_process_.find(process);
  if (found == by_process_.end()) return ids;
  const std::map<uint64_t, SessionSlot> sessions = std::move(found->second);
  by_process_.erase(found);
  for (const auto& [serial, slot] : sessions) {
    Session& session = at(slot);
    ids.push_back(session.id);
    session.processes.erase(process);
    session.last_gone = now;
    if (session.counts_for_parent) at(session.parent).last_gone = now;
    UpdateParent(session);
  }
  return ids;
}

void SessionTable::UpdateParent(Session& session) {
  if (session.parent == kNoSession) return;
  const bool counts = !session.is_vouched && !session.processes.empty();
  if (counts == session.counts_for_parent) return;
  session.counts_for_parent = counts;
  Session& parent = at(session.parent);
  if (counts) {
    ++parent.members_alive;
  } else {
    --parent.members_alive;
  }
}

void SessionTable::SetDeadline(const Session& session, TimePoint time) {
  deadlines_.Set({.time = time, .order = session.serial, .session = session.slot});
}

}  // namespace kvpool
