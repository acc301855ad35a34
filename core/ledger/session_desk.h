#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/ledger/alloc_desk.h"
#include "core/ledger/pin_desk.h"
#include "core/ledger/reclaimer.h"
#include "core/ledger/state.h"

namespace kvpool {

// When something happens: now, but what fell due before, `due`, is done in order of that.
struct Moment {
  TimePoint due;
  TimePoint now;
};

// SessionDesk opens sessions and ends them, and settles what they claim until when.
//
// A session claims until it is vouched for: by its end, by CloseSession or an operator afterwards,
// or because its processes and its members' have been gone for claim_grace.
class SessionDesk {
 public:
  // The arguments must outlive it.
  SessionDesk(LedgerState& state, Reclaimer& reclaimer, AllocDesk& allocs, PinDesk& pins)
      : state_(state), reclaimer_(reclaimer), allocs_(allocs), pins_(pins) {}

  SessionDesk(const SessionDesk&) = delete;
  SessionDesk& operator=(const SessionDesk&) = delete;

  absl::StatusOr<Duration> Open(const OpenSessionCall& call, TimePoint now);
  absl::Status Attach(const Caller& caller, ProcessId process, TimePoint now);
  void Detach(const SessionId& id, TimePoint now);
  absl::Status Close(const Caller& caller, TimePoint now);
  absl::Status Terminate(const SessionId& id, bool release_claims, TimePoint now);
  void ProcessGone(ProcessId process, TimePoint now);
  // The session's deadline has come: it expires, or its claims end.
  void FallDue(SessionSlot slot, const Moment& moment);

 private:
  absl::Status CheckOpen(const OpenSessionCall& call, TimePoint now);
  absl::StatusOr<SessionSlot> FindParent(const OpenSessionCall& call) const;
  // Ends a live session and its members. `vouched`: they leave no claims. It may be forgotten.
  void End(Session& session, SessionEnd reason, bool vouched, const Moment& moment);
  void EndPending(Session& session, TimePoint now);
  void EndMembers(Session& session, bool vouched, const Moment& moment);
  // Ends the claims of an ended session, and those of members that ended before.
  void VouchForAll(Session& session, const Moment& moment);
  // Ends the claims of an ended session, which may be forgotten by that.
  void Vouch(Session& session, const Moment& moment);
  void MarkVouched(Session& session);
  // Where the processes of an ended session are all gone, has its claims end in time. Returns
  // whether they ended at once.
  bool Settle(Session& session, const Moment& moment);
  // The same for one whose member changed; kNoSession and what is forgotten pass.
  void SettleParent(SessionSlot parent, const Moment& moment);

  LedgerState& state_;
  Reclaimer& reclaimer_;
  AllocDesk& allocs_;
  PinDesk& pins_;
};

}  // namespace kvpool
