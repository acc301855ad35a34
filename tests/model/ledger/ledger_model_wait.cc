#include <algorithm>

#include "tests/model/ledger/ledger_model.h"

namespace kvpool::test {
namespace {

using Kind = ExpectedEvent::Kind;

}  // namespace

void LedgerModel::ServeWaiters() {
  while (complaint_.empty() && ServeOneWaiter()) {
  }
}

// Serves or fails the first waiting call whose turn has come; false where there is none.
bool LedgerModel::ServeOneWaiter() {
  for (const auto& queue : state_.waiters) {
    for (const ModelState::Waiter& waiter : queue) {
      uint32_t take = 0;
      const AllocCall call = waiter.Call();
      const bool is_first = IsFirst(call, waiter.id);
      const Verdicts verdicts = CheckAlloc(call, is_first, &take);
      if (verdicts.front().detail.reason == Reason::kPoolFull) continue;
      // In the middle of a call it is not known how much of a slice is dropped: see Finish.
      const SeenGrant grant = FindGrant(waiter.id, *seen_);
      if (IsSliced() && verdicts.front().ok() && grant.fill == nullptr && grant.answer == nullptr) {
        continue;
      }
      if (!verdicts.front().ok() && !is_first) continue;
      const PendingId id = waiter.id;
      const std::string request = waiter.request;
      if (!verdicts.front().ok()) {
        EndWaiter(id, verdicts);
        return true;
      }
      // The call outlives the waiter.
      const std::vector<BlockRef> release = waiter.release;
      const std::string tenant = waiter.tenant;
      const std::shared_ptr<const PrefixKeys> prefix = waiter.prefix;
      AllocCall served = call;
      served.release = release;
      served.caller.tenant = tenant;
      RemoveWaiter(id);
      ServeWaiter(id, served, request, take);
      return true;
    }
  }
  return false;
}

void LedgerModel::ServeWaiter(PendingId id, const AllocCall& call, const std::string& request,
                              uint32_t take) {
  const SessionId& session = call.caller.session;
  state_.sessions[session].last_call = now_;
  const SeenGrant grant = FindGrant(id, *seen_);
  Serve(id, call, request, take, grant.fill == nullptr ? grant.answer : nullptr);
  if (!complaint_.empty() || grant.fill != nullptr) return;
  AllocAnswer answer = *grant.answer;
  answer.available = Told(state_.Available(session));
  expected_.push_back(
      {.kind = Kind::kAllocDone, .id = id, .verdicts = Ok(), .answer = answer, .is_grant = true});
  // It is remembered as it was told.
  Remember(session, call.idempotency_key, request, *grant.answer);
}

void LedgerModel::RemoveWaiter(PendingId id) {
  for (auto& queue : state_.waiters) {
    std::erase_if(queue, [id](const ModelState::Waiter& waiter) { return waiter.id == id; });
  }
}

void LedgerModel::EndWaiter(PendingId id, const Verdicts& verdicts) {
  for (const auto& queue : state_.waiters) {
    for (const ModelState::Waiter& waiter : queue) {
      if (waiter.id != id || !state_.IsLive(waiter.call.caller.session)) continue;
      state_.sessions[waiter.call.caller.session].last_call = now_;
    }
  }
  RemoveWaiter(id);
  expected_.push_back({.kind = Kind::kAllocDone, .id = id, .verdicts = verdicts});
}

void LedgerModel::FillDone(PendingId id, const absl::Status& status, TimePoint now,
                           const Seen& seen) {
  Begin(now, seen);
  const auto it = std::ranges::find(state_.fills, id, &ModelState::Fill::id);
  const ModelState::Fill fill = *it;
  state_.fills.erase(it);
  std::erase_if(state_.pins, [id](const ModelState::Pin& pin) { return pin.id == id; });
  const bool is_wanted = fill.answer != PendingId{};
  if (is_wanted) state_.sessions[fill.session].last_call = now;
  if (!status.ok()) {
    for (const uint32_t block : fill.filled) state_.blocks[block].is_doubtful = true;
  }
  for (const BlockRef& ref : fill.blocks) {
    const uint32_t block = ToIndex(ref.block);
    if (!status.ok() && state_.IsLive(fill.session) && state_.RefCount(block, fill.session) > 0 &&
        state_.blocks[block].generation == ref.generation) {
      DropRef(block, fill.session, TraceOperation::kDec);
    }
  }
  const SeenGrant grant = FindGrant(fill.answer, seen);
  AllocAnswer answer;
  if (is_wanted && status.ok()) {
    FreeAllDone();
    // The order of the blocks is the ledger's.
    answer.blocks = fill.blocks;
    answer.matched_blocks = fill.matched_blocks;
    answer.last_key = fill.last_key;
    answer.available = Told(state_.Available(fill.session));
    expected_.push_back(
        {.kind = Kind::kAllocDone, .id = fill.answer, .verdicts = Ok(), .answer = answer});
    Remember(fill.session, fill.key, fill.request,
             grant.answer == nullptr ? answer : *grant.answer);
  } else if (is_wanted) {
    expected_.push_back(
        {.kind = Kind::kAllocDone, .id = fill.answer, .verdicts = Error(status.code())});
  }
  Finish();
}

void LedgerModel::Cancel(PendingId id, TimePoint now, bool result, const Seen& seen) {
  Begin(now, seen);
  bool is_waiting = false;
  for (const auto& queue : state_.waiters) {
    for (const ModelState::Waiter& waiter : queue) {
      if (waiter.id != id) continue;
      is_waiting = true;
      state_.sessions[waiter.call.caller.session].last_call = now;
    }
  }
  RemoveWaiter(id);
  for (const ModelState::Pin& pin : state_.pins) {
    if (pin.id != id || pin.is_granted) continue;
    is_waiting = true;
    if (state_.IsLive(pin.reader)) state_.sessions[pin.reader].last_call = now;
  }
  if (result != is_waiting) Complain("Cancel: tells wrongly whether the call waited");
  std::erase_if(state_.pins,
                [id](const ModelState::Pin& pin) { return pin.id == id && !pin.is_granted; });
  Finish();
}

}  // namespace kvpool::test
