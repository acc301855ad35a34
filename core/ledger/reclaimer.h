#pragma once

#include <cstdint>
#include <map>

#include "core/ledger/state.h"

namespace kvpool {

// Reclaimer undoes sessions that ended, in slices: it drops their references, leaves claims or
// ends them, and forgets a session of which nothing is left.
class Reclaimer {
 public:
  // `state` must outlive it.
  explicit Reclaimer(LedgerState& state) : state_(state) {}

  Reclaimer(const Reclaimer&) = delete;
  Reclaimer& operator=(const Reclaimer&) = delete;

  // An operation begins: the sessions that end in it share one slice of what is done at once.
  void BeginOperation() { first_slice_left_ = state_.options.limits.reclaim_slice; }
  // Does, as far as that slice goes, what an ended session, whose end or `is_vouched` is new,
  // leaves to do. The session may be forgotten by that.
  void Begin(Session& session, TimePoint now);

  // Does at most `budget` steps, each a session's references to one block or one claim. Returns
  // what is left of it.
  uint32_t Run(uint32_t budget, TimePoint now);
  bool has_work() const { return !work_.empty(); }

 private:
  bool HasWork(const Session& session) const;
  void Step(Session& session, TimePoint now);
  // Works on one session; returns what is left of `budget`.
  uint32_t Work(Session& session, uint32_t budget, TimePoint now);

  LedgerState& state_;
  uint32_t first_slice_left_ = 0;
  std::map<uint64_t, SessionSlot> work_;  // By serial.
};

}  // namespace kvpool
