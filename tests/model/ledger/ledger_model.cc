#include "tests/model/ledger/ledger_model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "tests/model/ledger/call_text.h"

namespace kvpool::test {

void LedgerModel::Complain(const std::string& what) {
  if (complaint_.empty()) complaint_ = what;
}

void LedgerModel::Judge(const char* what, const Verdicts& verdicts, const absl::Status& status) {
  if (!Allows(verdicts, status)) {
    Complain(absl::StrCat(what, ": expected ", ToText(verdicts), ", got ", ToText(status), " (",
                          std::string(status.message()), ")"));
  }
}

// Each thing that falls due happens at its own time; at one time, to sessions before waits.
void LedgerModel::Begin(TimePoint now, const Seen& seen) {
  seen_ = &seen;
  now_ = now;
  expected_.clear();
  dropped_ = 0;
  left_dropped_ = 0;
  has_tie_ = false;
  may_drop_ = 0;
  must_drop_ = 0;
  begun_ = 0;
  has_loose_group_ = false;
  done_before_.clear();
  for (const uint32_t block : state_.Leaves({}, /*is_cached=*/true)) {
    if (state_.blocks[block].is_done) done_before_.insert(block);
  }
  if (!state_.waiters[0].empty() || !state_.waiters[1].empty()) may_drop_.reset();
  for (auto due = state_.NextDeadline(); due.has_value() && *due <= now;
       due = state_.NextDeadline()) {
    state_.now = std::max(state_.now, *due);
    has_tie_ |= std::ranges::count_if(state_.sessions, [&](const auto& entry) {
                  return !entry.second.is_live && state_.ClaimsEnd(entry.first) == due;
                }) > 1;
    EndExpired();
    Settle();
    EndWaits();
    Settle();
  }
  state_.now = now;
}

void LedgerModel::EndExpired() {
  std::vector<SessionId> expired;
  for (const auto& [id, session] : state_.sessions) {
    const auto expiry = state_.Expiry(id);
    if (expiry.has_value() && *expiry <= state_.now) expired.push_back(id);
  }
  for (const SessionId& id : expired) {
    // It may have ended with another that it had joined.
    if (state_.IsLive(id)) EndSession(id, SessionEnd::kExpired, /*is_vouched=*/false);
  }
}

// Each end of a wait may make room for the next in line.
void LedgerModel::EndWaits() {
  while (EndOneWait()) Settle();
}

bool LedgerModel::EndOneWait() {
  const ModelState::Waiter* first = nullptr;  // That came first, of those whose time is over.
  for (const auto& queue : state_.waiters) {
    for (const ModelState::Waiter& waiter : queue) {
      const bool is_over = waiter.deadline <= state_.now;
      if (is_over && (first == nullptr || waiter.id < first->id)) first = &waiter;
    }
  }
  if (first == nullptr) return false;
  uint32_t take = 0;
  const AllocCall call = first->Call();
  Verdicts verdicts = CheckAlloc(call, IsFirst(call, first->id), &take);
  if (verdicts.front().detail.reason != Reason::kPoolFull) {
    // What it was to release is not its own any more: that may be told, or the time's end.
    Append(&verdicts, Error(absl::StatusCode::kResourceExhausted,
                            {.reason = Reason::kPoolFull, .available = kAnyNumber}));
  }
  EndWaiter(first->id, verdicts);
  return true;
}

void LedgerModel::Advance(TimePoint now, const Seen& seen) {
  Begin(now, seen);
  Finish();
}

void LedgerModel::Reclaim(uint32_t max_references, TimePoint now, bool result, const Seen& seen) {
  Begin(now, seen);
  if (may_drop_.has_value()) *may_drop_ += max_references;
  Finish();
  if (!result && Leftovers() > 0) Complain("Reclaim says that nothing is left");
  if (result && Leftovers() == 0 && !IsSliced()) Complain("Reclaim says that something is left");
  for (const auto& [id, session] : state_.sessions) {
    if (result || session.is_live || !state_.IsOver(id)) continue;
    Complain(ToText(id) + " is not forgotten, and nothing is left of it");
  }
}

void LedgerModel::Finish() {
  Settle();
  FollowEarlyPinFailures();
  Settle();
  for (const auto& queue : state_.waiters) {
    for (const ModelState::Waiter& waiter : queue) {
      uint32_t take = 0;
      const AllocCall call = waiter.Call();
      if (CheckAlloc(call, IsFirst(call, waiter.id), &take).front().ok()) {
        Complain(ToText(waiter.id) + " could be served, and waits");
      }
    }
  }
  const uint64_t dropped = dropped_ + left_dropped_;
  if (may_drop_.has_value() && dropped > *may_drop_) {
    Complain(absl::StrCat("dropped ", dropped, " of what ended sessions hold, not at most ",
                          *may_drop_));
  }
  if (Leftovers() > 0 && dropped < must_drop_ && !IsSliced()) {
    Complain(
        absl::StrCat("dropped ", dropped, " of what ended sessions hold, and left ", Leftovers()));
  }
}

bool LedgerModel::IsExact() const {
  const bool has_ended =
      std::ranges::any_of(state_.sessions, [](const auto& entry) { return !entry.second.is_live; });
  return !has_tie_ && !(IsSliced() && (has_ended || dropped_ > 0));
}

void LedgerModel::Settle() {
  FollowReclaim();
  FollowLeft();
  ServePins();
  ServeWaiters();
  ForgetSessions();
}

void LedgerModel::Note(uint32_t block, TraceOperation operation) {
  auto& trace = state_.blocks[block].trace;
  const uint32_t count = state_.RefCount(block);
  // A session's end may be noted once for all its references to a block, or once for each.
  if (operation == TraceOperation::kRelease && !trace.empty() && trace.back().first == operation) {
    trace.back().second = count;
    return;
  }
  trace.emplace_back(operation, count);
  if (trace.size() > 64) trace.pop_front();
}

void LedgerModel::FreeIfDone(uint32_t block, bool is_ordered) {
  ModelState::Block& entry = state_.blocks[block];
  if (entry.is_free || !entry.refs.empty() || state_.IsClaimed(block) || state_.IsPinned(block) ||
      state_.IsFindable(block) || entry.is_left) {
    return;
  }
  entry.is_free = true;
  entry.is_old = false;
  entry.sealed.reset();
  if (is_ordered || !has_loose_group_ || state_.free_groups.empty()) {
    state_.free_groups.emplace_back();
  }
  state_.free_groups.back().insert(block);
  has_loose_group_ = !is_ordered;
}

void LedgerModel::FreeAllDone() {
  for (uint32_t i = 0; i < state_.blocks.size(); ++i) FreeIfDone(i, /*is_ordered=*/false);
}

}  // namespace kvpool::test
