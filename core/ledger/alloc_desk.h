#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

#include "core/ledger/allowance.h"
#include "core/ledger/grant_desk.h"
#include "core/ledger/keyed_calls.h"
#include "core/ledger/reclaimer.h"
#include "core/ledger/state.h"

namespace kvpool {

// AllocDesk gives blocks to sessions, as far as Allowance lets them have any: at once, after a
// wait, or after a fill.
class AllocDesk {
 public:
  // The arguments must outlive it.
  AllocDesk(LedgerState& state, KeyedCalls& keys, Reclaimer& reclaimer, GrantDesk& grants)
      : state_(state), keys_(keys), reclaimer_(reclaimer), grants_(grants) {}

  AllocDesk(const AllocDesk&) = delete;
  AllocDesk& operator=(const AllocDesk&) = delete;

  // Requires ids in range.
  absl::StatusOr<AllocOutcome> Alloc(Session& session, const AllocCall& call, TimePoint now);
  // Withdraws a waiting call. False where no such call waits.
  bool Cancel(PendingId id, TimePoint now);
  // What members claim of the session's has changed: what its waiting calls release is judged anew.
  void ClaimsChanged(const Session& session);
  // Serves whom it can of those who wait, down to those in `last`.
  void Serve(TimePoint now, WaitQueue last = WaitQueue::kAdmit);
  // A call's wait is over.
  void EndWait(PendingId id, TimePoint now);
  // Answers a pending call of a session that ended. False where no such call is pending.
  bool Abandon(Session& session, PendingId id, const absl::Status& status, TimePoint now);

  // As Allowance's.
  absl::Status CheckAdd(const Session& session, const AddEffect& effect) const {
    return allowance_.CheckAdd(session, effect);
  }
  // What the session could allocate now.
  uint32_t Available(const Session& session) const { return allowance_.Available(session); }

 private:
  absl::Status CheckArguments(const Session& session, const AllocCall& call) const;
  // Answers a call whose key is known; absent where it is not.
  absl::StatusOr<std::optional<AllocOutcome>> Repeat(Session& session, const AllocCall& call,
                                                     uint64_t request, TimePoint now);
  AllocOutcome TakePlace(Session& session, PendingId first, const AllocCall& call, TimePoint now);

  // What to give, after reclaiming what ended sessions hold as far as needed.
  absl::StatusOr<Grant> JudgeReclaiming(Session& session, const AllocCall& call,
                                        const Demand& demand, TimePoint now);

  absl::StatusOr<AllocOutcome> Wait(Session& session, const AllocCall& call, uint64_t request,
                                    TimePoint now);
  // Serves the first waiting call that its session's guarantee lets pass; false: there is none.
  bool ServeGuaranteed(TimePoint now);
  bool ServeOne(WaitingCall& call, bool is_first, TimePoint now);
  // What to give; absent where it must wait on.
  absl::StatusOr<std::optional<Grant>> JudgeWaiting(WaitingCall& call, const Session& session,
                                                    bool is_first);
  const absl::StatusOr<DropEffect>& EffectOf(WaitingCall& call);
  // Finds out what the call's `release` would do, and what the call needs by that.
  void Evaluate(WaitingCall& call);
  // Brings what is known of waiting calls up to date with what changed.
  void Refresh();
  // Takes a call out of the queues; it is not pending any more.
  WaitingCall Leave(Session& session, PendingId id, TimePoint now);

  LedgerState& state_;
  KeyedCalls& keys_;
  Reclaimer& reclaimer_;
  GrantDesk& grants_;
  const Allowance allowance_{state_};
};

}  // namespace kvpool
