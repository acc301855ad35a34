#include "core/ledger/reclaimer.h"

#include "absl/strings/string_view.h"

namespace kvpool {
namespace {

absl::string_view ReasonOf(SessionEnd end) {
  switch (end) {
    case SessionEnd::kClosed:
      return "CloseSession";
    case SessionEnd::kExpired:
      return "expired";
    case SessionEnd::kDetached:
      return "detached";
    case SessionEnd::kProcessGone:
      return "process gone";
    case SessionEnd::kTerminated:
      return "TerminateSession";
    case SessionEnd::kParentEnded:
      return "parent ended";
  }
  return "ended";
}

}  // namespace

void Reclaimer::Begin(Session& session, TimePoint now) {
  first_slice_left_ = Work(session, first_slice_left_, now);
}

uint32_t Reclaimer::Run(uint32_t budget, TimePoint now) {
  while (budget > 0 && !work_.empty()) {
    budget = Work(state_.sessions.at(work_.begin()->second), budget, now);
  }
  return budget;
}

bool Reclaimer::HasWork(const Session& session) const {
  return session.held.head != kNoHolder || (session.is_vouched && session.claims.head != kNoHolder);
}

void Reclaimer::Step(Session& session, TimePoint now) {
  if (session.held.head != kNoHolder) {
    state_.references.Release(session, session.held.head, /*claim=*/!session.is_vouched,
                              {ReasonOf(session.end_reason), session.id, now});
  } else {
    state_.claims.EndClaim(session, session.claims.head, {"claim ended", session.id, now});
  }
}

uint32_t Reclaimer::Work(Session& session, uint32_t budget, TimePoint now) {
  for (; budget > 0 && HasWork(session); --budget) Step(session, now);
  session.is_queued = HasWork(session);
  if (session.is_queued) {
    work_.emplace(session.serial, session.slot);
    return budget;
  }
  work_.erase(session.serial);
  if (session.is_vouched) {
    state_.events.emplace_back(SessionForgotten{session.id});
    state_.sessions.Erase(session);
  }
  return budget;
}

}  // namespace kvpool
