#include <algorithm>

#include "tests/model/ledger/ledger_model.h"

namespace kvpool::test {
namespace {

using Kind = ExpectedEvent::Kind;

}  // namespace

SeenGrant FindGrant(PendingId id, const Seen& seen) {
  SeenGrant grant;
  for (const LedgerEvent& event : seen.events) {
    if (const auto* fill = std::get_if<FillNeeded>(&event); fill != nullptr && fill->id == id) {
      grant.fill = fill;
    }
    if (const auto* done = std::get_if<AllocDone>(&event);
        done != nullptr && done->id == id && done->result.ok()) {
      grant.answer = &*done->result;
    }
  }
  return grant;
}

void LedgerModel::ServeWaiters() {
  if (!state_.waiters[0].empty() || !state_.waiters[1].empty()) FollowReclaim();
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
      const Verdicts verdicts = CheckRoom(call, is_first, &take);
      if (verdicts.front().detail.reason == Reason::kPoolFull) continue;
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
  state_.sessions[session].last_call = state_.now;
  const SeenGrant grant = FindGrant(id, *seen_);
  Serve(id, call, request, take, grant.fill == nullptr ? grant.answer : nullptr);
  if (!complaint_.empty() || grant.fill != nullptr) return;
  AllocAnswer answer = *grant.answer;
  answer.available = state_.Available(session);
  expected_.push_back(
      {.kind = Kind::kAllocDone, .id = id, .verdicts = Ok(), .answer = answer, .is_grant = true});
  Remember(session, call.idempotency_key, request, answer);
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
      state_.sessions[waiter.call.caller.session].last_call = state_.now;
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
  for (const BlockRef& ref : fill.blocks) {
    const uint32_t block = ToIndex(ref.block);
    if (!status.ok() && state_.IsLive(fill.session) && state_.RefCount(block, fill.session) > 0) {
      DropRef(block, fill.session, TraceOperation::kDec);
    }
  }
  const SeenGrant grant = FindGrant(fill.answer, seen);
  AllocAnswer answer{.blocks = fill.blocks};
  if (grant.answer != nullptr) answer = *grant.answer;
  if (is_wanted && status.ok()) Remember(fill.session, fill.key, fill.request, answer);
  Finish();
  if (!is_wanted) return;
  if (!status.ok()) {
    expected_.push_back(
        {.kind = Kind::kAllocDone, .id = fill.answer, .verdicts = Error(status.code())});
    return;
  }
  // The order of the blocks is the ledger's.
  answer.blocks = fill.blocks;
  answer.available = state_.Available(fill.session);
  expected_.push_back(
      {.kind = Kind::kAllocDone, .id = fill.answer, .verdicts = Ok(), .answer = answer});
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
