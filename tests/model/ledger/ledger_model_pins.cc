#include <algorithm>
#include <tuple>

#include "tests/model/ledger/ledger_model.h"

namespace kvpool::test {
namespace {

using Kind = ExpectedEvent::Kind;

}  // namespace

void LedgerModel::Pin(const PinCall& call, TimePoint now, const absl::StatusOr<PinOutcome>& result,
                      const Seen& seen) {
  Begin(now, seen);
  ModelState::Pin pin{.reader = call.caller.session,
                      .writer = call.write_session.value_or(call.caller.session),
                      .reads = {call.reads.begin(), call.reads.end()},
                      .writes = {call.writes.begin(), call.writes.end()}};
  Verdicts verdicts = Admit(call.caller, /*may_be_joined=*/false);
  if (verdicts.front().ok()) {
    const Verdicts writer =
        CheckSession(state_, {.session = pin.writer, .tenant = call.caller.tenant},
                     /*may_be_joined=*/false);
    Verdicts wrong = CheckList(state_, call.reads);
    if (wrong.front().ok()) wrong = CheckList(state_, call.writes);
    if (wrong.front().ok()) wrong.clear();
    if (!writer.front().ok()) Append(&wrong, writer);
    verdicts = wrong.empty() ? CheckPin(state_, pin) : wrong;
  }
  Judge("Pin", verdicts, result.status());
  if (result.ok() && complaint_.empty()) {
    pin.id = result->id;
    pin.is_granted = !state_.MustWait(pin);
    // While it waits, it means the blocks that the session holds now.
    for (std::vector<BlockRef>* list : {&pin.reads, &pin.writes}) {
      for (BlockRef& ref : *list) ref.generation = state_.blocks[ToIndex(ref.block)].generation;
    }
    if (pin.is_granted != result->granted) Complain("Pin: waits, or is granted, out of turn");
    state_.pins.push_back(pin);
  }
  Finish();
}

void LedgerModel::Unpin(PendingId id, TimePoint now, const Seen& seen) {
  Begin(now, seen);
  const auto pin = std::ranges::find(state_.pins, id, &ModelState::Pin::id);
  if (state_.IsLive(pin->reader)) state_.sessions[pin->reader].last_call = now;
  state_.pins.erase(pin);
  // What a reset left may go at once.
  may_drop_.reset();
  Finish();
}

void LedgerModel::ServePins() {
  for (size_t i = 0; i < state_.pins.size();) {
    const ModelState::Pin& pin = state_.pins[i];
    if (pin.is_granted || state_.MustWait(pin)) {
      ++i;
      continue;
    }
    const Verdicts verdicts = CheckPin(state_, pin);
    expected_.push_back({.kind = Kind::kPinDone, .id = pin.id, .verdicts = verdicts});
    if (IsPinGranted(pin.id, *seen_)) {
      state_.pins[i].is_granted = true;
    } else {
      // The call has run until now.
      if (state_.IsLive(pin.reader)) state_.sessions[pin.reader].last_call = now_;
      state_.pins.erase(state_.pins.begin() + static_cast<std::ptrdiff_t>(i));
      i = 0;
    }
  }
}

// A pin that cannot be granted any more may be told so before its turn.
void LedgerModel::FollowEarlyPinFailures() {
  for (const LedgerEvent& event : seen_->events) {
    const auto* done = std::get_if<PinDone>(&event);
    if (done == nullptr || done->status.ok()) continue;
    const auto pin = std::ranges::find(state_.pins, done->id, &ModelState::Pin::id);
    if (pin == state_.pins.end() || pin->is_granted) continue;
    const Verdicts verdicts = CheckPin(state_, *pin);
    if (verdicts.front().ok()) continue;
    expected_.push_back({.kind = Kind::kPinDone, .id = done->id, .verdicts = verdicts});
    if (state_.IsLive(pin->reader)) state_.sessions[pin->reader].last_call = now_;
    state_.pins.erase(pin);
  }
}

void LedgerModel::CheckHeld(const Caller& caller, std::span<const BlockRef> blocks,
                            const absl::Status& result) {
  Verdicts verdicts = CheckSession(state_, caller, /*may_be_joined=*/false);
  if (verdicts.front().ok()) verdicts = CheckList(state_, blocks);
  if (verdicts.front().ok())
    verdicts = CheckHolds(state_, caller.session, blocks, /*is_writing=*/false);
  Judge("CheckHeld", verdicts, result);
}

}  // namespace kvpool::test
