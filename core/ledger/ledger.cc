#include "core/ledger/ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/error.h"
#include "core/layout/pool_layout.h"
#include "core/ledger/invariants.h"
#include "core/status_macros.h"

namespace kvpool {

Ledger::Ledger(const LedgerOptions& options) : desks_(options) {
  KVPOOL_CHECK(options.num_blocks > 0 && options.num_blocks <= kMaxBlocks);
  KVPOOL_CHECK(options.fill_on_alloc != Fill::kUnspecified);
  KVPOOL_CHECK(options.limits.max_sessions <= UINT16_MAX);
  KVPOOL_CHECK(options.limits.min_ttl <= options.limits.max_ttl);
  KVPOOL_CHECK(options.limits.reclaim_slice > 0);
}

absl::StatusOr<Duration> Ledger::OpenSession(const OpenSessionCall& call, TimePoint now) {
  Advance(now);
  return desks_.sessions.Open(call, now);
}

absl::Status Ledger::Attach(const Caller& caller, ProcessId process, TimePoint now) {
  Advance(now);
  return desks_.sessions.Attach(caller, process, now);
}

void Ledger::Detach(const SessionId& session, TimePoint now) {
  Advance(now);
  desks_.sessions.Detach(session, now);
  desks_.allocs.Serve(now);
}

absl::Status Ledger::AddProcess(const Caller& caller, ProcessId process, TimePoint now) {
  Advance(now);
  KVPOOL_ASSIGN_OR_RETURN(Session * session, desks_.state.sessions.FindLive(caller, now));
  desks_.state.sessions.AddProcess(*session, process);
  return absl::OkStatus();
}

absl::Status Ledger::BeginCall(const Caller& caller, TimePoint now) {
  Advance(now);
  KVPOOL_ASSIGN_OR_RETURN(Session * session, desks_.state.sessions.FindHolding(caller, now));
  desks_.state.sessions.BeginRunning(*session);
  return absl::OkStatus();
}

void Ledger::EndCall(const SessionId& session, TimePoint now) {
  Advance(now);
  Session* found = desks_.state.sessions.Find(session);
  if (found != nullptr && found->is_live) desks_.state.sessions.EndRunning(*found, now);
}

absl::Status Ledger::CloseSession(const Caller& caller, TimePoint now) {
  Advance(now);
  KVPOOL_RETURN_IF_ERROR(desks_.sessions.Close(caller, now));
  desks_.allocs.Serve(now);
  return absl::OkStatus();
}

absl::Status Ledger::TerminateSession(const SessionId& session, bool release_claims,
                                      TimePoint now) {
  Advance(now);
  KVPOOL_RETURN_IF_ERROR(desks_.sessions.Terminate(session, release_claims, now));
  desks_.allocs.Serve(now);
  return absl::OkStatus();
}

void Ledger::ProcessGone(ProcessId process, TimePoint now) {
  Advance(now);
  desks_.sessions.ProcessGone(process, now);
  desks_.allocs.Serve(now);
}

absl::StatusOr<AllocOutcome> Ledger::Alloc(const AllocCall& call, TimePoint now) {
  Advance(now);
  KVPOOL_ASSIGN_OR_RETURN(Session * session, desks_.state.sessions.FindHolding(call.caller, now));
  KVPOOL_RETURN_IF_ERROR(CheckList(call.release));
  absl::StatusOr<AllocOutcome> outcome = desks_.allocs.Alloc(*session, call, now);
  desks_.allocs.Serve(now);
  return outcome;
}

void Ledger::FillDone(PendingId id, const absl::Status& status, TimePoint now) {
  Advance(now);
  desks_.grants.FillDone(id, status, now);
  desks_.allocs.Serve(now);
}

bool Ledger::Cancel(PendingId id, TimePoint now) {
  Advance(now);
  const bool is_cancelled = desks_.allocs.Cancel(id, now) || desks_.pins.Cancel(id, now);
  desks_.allocs.Serve(now);
  return is_cancelled;
}

absl::Status Ledger::IncRef(const IncRefCall& call, TimePoint now) {
  Advance(now);
  KVPOOL_ASSIGN_OR_RETURN(Session * session, desks_.state.sessions.FindHolding(call.caller, now));
  KVPOOL_RETURN_IF_ERROR(CheckList(call.blocks));
  const uint64_t key = call.idempotency_key;
  const uint64_t request = key == 0 ? 0 : KeyedCalls::Hash(call);
  KVPOOL_ASSIGN_OR_RETURN(const KeyedAnswer* known, desks_.keys.Find(*session, key, request));
  if (known != nullptr) return absl::OkStatus();
  KVPOOL_ASSIGN_OR_RETURN(const AddEffect effect,
                          desks_.state.references.CheckAdd(*session, call.blocks));
  KVPOOL_RETURN_IF_ERROR(desks_.allocs.CheckAdd(*session, effect));
  const Cause cause = {"IncRef", session->id, now};
  for (const BlockRef& ref : call.blocks) {
    desks_.state.references.Add(*session, ref.block, TraceOperation::kInc, cause);
  }
  if (key != 0) desks_.keys.Remember(*session, key, request, std::monostate{});
  desks_.allocs.Serve(now);
  return absl::OkStatus();
}

absl::StatusOr<DecRefAnswer> Ledger::DecRef(const DecRefCall& call, TimePoint now) {
  Advance(now);
  KVPOOL_ASSIGN_OR_RETURN(Session * session, desks_.state.sessions.FindHolding(call.caller, now));
  KVPOOL_RETURN_IF_ERROR(CheckList(call.blocks));
  const uint64_t key = call.idempotency_key;
  const uint64_t request = key == 0 ? 0 : KeyedCalls::Hash(call);
  KVPOOL_ASSIGN_OR_RETURN(const KeyedAnswer* known, desks_.keys.Find(*session, key, request));
  if (known != nullptr) return std::get<DecRefAnswer>(*known);
  KVPOOL_RETURN_IF_ERROR(desks_.state.references.CheckDrop(*session, call.blocks).status());
  const Cause cause = {"DecRef", session->id, now};
  DecRefAnswer answer;
  for (const BlockRef& ref : call.blocks) {
    const BlockState state = desks_.state.claims.Drop(*session, ref.block, cause);
    if (state == BlockState::kFree) ++answer.freed;
    if (state != BlockState::kCached) continue;
    ++answer.cached;
    if (call.done) desks_.state.references.cache().HintDone(ref.block);
  }
  desks_.allocs.Serve(now);
  answer.available = desks_.allocs.Available(*session);
  if (key != 0) desks_.keys.Remember(*session, key, request, answer);
  return answer;
}

absl::StatusOr<PublishAnswer> Ledger::Publish(const PublishCall& call, TimePoint now) {
  Advance(now);
  KVPOOL_ASSIGN_OR_RETURN(Session * session, desks_.state.sessions.FindHolding(call.caller, now));
  KVPOOL_RETURN_IF_ERROR(CheckList(call.blocks));
  absl::StatusOr<PublishAnswer> answer = desks_.cache.Publish(*session, call, now);
  // A waiting Acquire may find more now.
  desks_.allocs.Serve(now);
  return answer;
}

absl::StatusOr<LookupAnswer> Ledger::Lookup(const LookupCall& call, TimePoint now) {
  Advance(now);
  KVPOOL_ASSIGN_OR_RETURN(Session * session, desks_.state.sessions.FindHolding(call.caller, now));
  absl::StatusOr<LookupAnswer> answer = desks_.cache.Lookup(*session, call, now);
  desks_.allocs.Serve(now);
  return answer;
}

absl::StatusOr<EvictAnswer> Ledger::Evict(const EvictCall& call, TimePoint now) {
  Advance(now);
  KVPOOL_ASSIGN_OR_RETURN(Session * session, desks_.state.sessions.FindHolding(call.caller, now));
  KVPOOL_RETURN_IF_ERROR(CheckList(call.blocks));
  absl::StatusOr<EvictAnswer> answer = desks_.cache.Evict(*session, call, now);
  desks_.allocs.Serve(now);
  return answer;
}

uint32_t Ledger::ResetPrefixes(std::optional<absl::string_view> tenant, TimePoint now) {
  Advance(now);
  TenantSlot slot = kNoTenant;
  if (tenant.has_value()) {
    slot = desks_.state.tenants.Find(*tenant);
    if (slot == kNoTenant) return 0;
  }
  const uint32_t forgotten = desks_.cache.Reset(slot, now);
  desks_.allocs.Serve(now);
  return forgotten;
}

absl::StatusOr<PinOutcome> Ledger::Pin(const PinCall& call, TimePoint now) {
  Advance(now);
  KVPOOL_ASSIGN_OR_RETURN(Session * session, desks_.state.sessions.FindHolding(call.caller, now));
  KVPOOL_RETURN_IF_ERROR(CheckList(call.reads));
  KVPOOL_RETURN_IF_ERROR(CheckList(call.writes));
  absl::StatusOr<PinOutcome> outcome = desks_.pins.Pin(*session, call);
  desks_.allocs.Serve(now);
  return outcome;
}

void Ledger::Unpin(PendingId id, TimePoint now) {
  Advance(now);
  desks_.pins.Unpin(id, now);
  desks_.allocs.Serve(now);
}

absl::Status Ledger::CheckHeld(const Caller& caller, std::span<const BlockRef> blocks) const {
  KVPOOL_ASSIGN_OR_RETURN(const Session* session, desks_.state.sessions.PeekHolding(caller));
  KVPOOL_RETURN_IF_ERROR(CheckList(blocks));
  return desks_.state.references.CheckHeld(*session, blocks);
}

absl::StatusOr<std::string> Ledger::GetModel(const Caller& caller) const {
  KVPOOL_ASSIGN_OR_RETURN(const Session* session, desks_.state.sessions.PeekHolding(caller));
  KVPOOL_RETURN_IF_ERROR(SessionTable::RequireModel(*session));
  return session->model_id;
}

void Ledger::Advance(TimePoint now) {
  desks_.reclaimer.BeginOperation();
  while (true) {
    const auto session = desks_.state.sessions.next_deadline();
    const auto wait = desks_.state.waits.next_deadline();
    const bool is_session_due = session.has_value() && session->time <= now;
    const bool is_wait_due = wait.has_value() && wait->first <= now;
    if (is_session_due && (!is_wait_due || session->time <= wait->first)) {
      desks_.sessions.FallDue(session->session, {.due = session->time, .now = now});
      // What comes free at one time does so at once, for whoever waits.
      const auto next = desks_.state.sessions.next_deadline();
      if (next.has_value() && next->time == session->time) continue;
    } else if (is_wait_due) {
      desks_.allocs.EndWait(wait->second, now);
    } else {
      return;
    }
    desks_.allocs.Serve(now);
  }
}

std::optional<TimePoint> Ledger::NextDeadline() const {
  const auto session = desks_.state.sessions.next_deadline();
  const auto wait = desks_.state.waits.next_deadline();
  if (!wait.has_value()) {
    return session.has_value() ? std::optional(session->time) : std::nullopt;
  }
  return session.has_value() ? std::min(session->time, wait->first) : wait->first;
}

bool Ledger::Reclaim(uint32_t max_references, TimePoint now) {
  Advance(now);
  desks_.cache.ReclaimOld(desks_.reclaimer.Run(max_references, now), now);
  desks_.allocs.Serve(now);
  return desks_.reclaimer.has_work() || desks_.cache.has_old();
}

std::vector<LedgerEvent> Ledger::TakeEvents() {
  desks_.watches.TellReady(desks_.state.events);
  return std::exchange(desks_.state.events, {});
}

LedgerCounts Ledger::counts() const { return desks_.inspector.Counts(); }

bool Ledger::is_idle() const { return desks_.inspector.IsIdle(); }

BlockInfo Ledger::GetBlock(BlockId block) const { return desks_.inspector.Block(block); }

std::string Ledger::TraceLine(BlockId block) const { return desks_.inspector.TraceLine(block); }

absl::StatusOr<SessionInfo> Ledger::GetSession(const SessionId& session,
                                               uint32_t max_blocks) const {
  return desks_.inspector.FindSession(session, max_blocks);
}

std::vector<SessionInfo> Ledger::ListSessions() const { return desks_.inspector.Sessions(); }

absl::Status Ledger::CheckInvariants() const { return CheckLedger(desks_.state); }

absl::Status Ledger::CheckList(std::span<const BlockRef> blocks) const {
  const LedgerOptions& options = desks_.state.options;
  if (blocks.size() > options.limits.max_blocks_per_call) {
    return MakeError(absl::StatusCode::kInvalidArgument, {},
                     absl::StrCat(blocks.size(), " blocks in a list, but at most ",
                                  options.limits.max_blocks_per_call, " a call"));
  }
  const auto bad = std::ranges::find_if(
      blocks, [&](const BlockRef& ref) { return ToIndex(ref.block) >= options.num_blocks; });
  if (bad == blocks.end()) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.index = static_cast<uint32_t>(bad - blocks.begin()), .block_id = ToIndex(bad->block)},
      absl::StrCat("entry ", bad - blocks.begin(), ": block ", ToIndex(bad->block),
                   " is not in the pool of ", options.num_blocks, " blocks"));
}

}  // namespace kvpool
