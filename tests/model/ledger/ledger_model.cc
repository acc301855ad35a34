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

// Each thing that falls due happens at its own time; what falls due at one time happens in the
// order in which Ledger::Advance names it.
void LedgerModel::Begin(TimePoint now, const Seen& seen) {
  seen_ = &seen;
  now_ = now;
  expected_.clear();
  dropped_ = 0;
  may_drop_ = 0;
  must_drop_ = 0;
  has_loose_group_ = false;
  if (!state_.waiters[0].empty() || !state_.waiters[1].empty()) may_drop_.reset();
  for (auto due = state_.NextDeadline(); due.has_value() && *due <= now;
       due = state_.NextDeadline()) {
    state_.now = std::max(state_.now, *due);
    EndExpired();
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

void LedgerModel::EndWaits() {
  for (auto& queue : state_.waiters) {
    for (size_t i = 0; i < queue.size();) {
      if (queue[i].deadline > state_.now) {
        ++i;
        continue;
      }
      uint32_t take = 0;
      const AllocCall call = queue[i].Call();
      const bool is_first = IsFirst(call, queue[i].id);
      Verdicts verdicts = CheckAlloc(call, is_first, &take);
      if (verdicts.front().detail.reason != Reason::kPoolFull) {
        // What it was to release is not its own any more: that may be told, or the time's end.
        Append(&verdicts, Error(absl::StatusCode::kResourceExhausted,
                                {.reason = Reason::kPoolFull,
                                 .available = state_.Available(call.caller.session, is_first)}));
      }
      EndWaiter(queue[i].id, verdicts);
    }
  }
}

void LedgerModel::Advance(TimePoint now, const Seen& seen) {
  Begin(now, seen);
  Finish();
}

void LedgerModel::Reclaim(uint32_t max_references, TimePoint now, bool result, const Seen& seen) {
  Begin(now, seen);
  if (may_drop_.has_value()) *may_drop_ += max_references;
  must_drop_ = std::max<uint64_t>(must_drop_, std::min(max_references, 1U));
  Finish();
  if (result != (Leftovers() > 0)) Complain("Reclaim tells wrongly whether something is left");
}

void LedgerModel::Finish() {
  Settle();
  FollowEarlyPinFailures();
  Settle();
  if (may_drop_.has_value() && dropped_ > *may_drop_) {
    Complain(absl::StrCat("dropped ", dropped_, " of what ended sessions hold, not at most ",
                          *may_drop_));
  }
  if (Leftovers() > 0 && dropped_ < must_drop_) {
    Complain(
        absl::StrCat("dropped ", dropped_, " of what ended sessions hold, and left ", Leftovers()));
  }
}

void LedgerModel::Settle() {
  FollowReclaim();
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
  if (entry.is_free || !entry.refs.empty() || state_.IsClaimed(block) || state_.IsPinned(block)) {
    return;
  }
  entry.is_free = true;
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
