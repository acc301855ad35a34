#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "tests/model/exhaustive/world.h"
#include "tests/model/ledger/call_text.h"

// What a world learns of the events.

namespace kvpool::test {

void World::TakeEvents() {
  const std::vector<LedgerEvent> events = ledger_.TakeEvents();
  event_count_ = events.size();
  for (const LedgerEvent& event : events) {
    std::visit([this](const auto& each) { On(each); }, event);
  }
  if (!starting_.has_value()) return;
  Expect(!waiting_.has_value(), "two calls wait, at most one may");
  waiting_ = std::exchange(starting_, std::nullopt);
}

void World::On(const AllocDone& event) {
  if (replaced_ == event.id) {
    Expect(absl::IsAborted(event.result.status()), "a call whose place was taken was not aborted");
    replaced_.reset();
    return;
  }
  if (keyed_.has_value() && keyed_->pending == event.id) {
    if (event.result.ok()) {
      keyed_->pending = {};
      keyed_->blocks = event.result->blocks;
    } else {
      keyed_.reset();
    }
  }
  if (!event.result.ok()) {
    const Reason reason = GetErrorDetail(event.result.status()).reason;
    if (reason != Reason::kUnspecified) reached_.reasons.insert(reason);
  }
  const auto fill = std::ranges::find_if(fills_, [&](const PendingCall& each) {
    return each.answer_to == event.id && !each.is_answered;
  });
  if (fill != fills_.end()) {
    fill->is_answered = true;
    if (!event.result.ok()) return;
    std::vector<uint32_t> given;
    std::vector<uint32_t> known;
    for (const BlockRef& ref : event.result->blocks) given.push_back(ToIndex(ref.block));
    for (const BlockRef& ref : fill->blocks) known.push_back(ToIndex(ref.block));
    std::ranges::sort(given);
    std::ranges::sort(known);
    Expect(given == known, "a fill's call is answered with other blocks");
    return;
  }
  std::optional<PendingCall>* pending = PendingOf(event.id);
  Expect(pending != nullptr, "an answer to no call");
  if (pending == nullptr) return;
  const PendingCall call = *std::exchange(*pending, std::nullopt);
  slots_[call.session].touched = now_;
  if (!event.result.ok()) return;
  if (call.release.has_value()) Drop(call.session, ToIndex(call.release->block));
  Expect(event.result->blocks.size() == call.count, "a call is given more or less than asked for");
  Take(call.session, event.result->blocks);
  if (call.is_acquire) Use(*event.result);
}

void World::On(const FillNeeded& event) {
  std::optional<PendingCall>* pending = PendingOf(event.id);
  Expect(pending != nullptr, "a fill for no call");
  if (pending == nullptr) return;
  PendingCall call = *std::exchange(*pending, std::nullopt);
  if (call.release.has_value()) Drop(call.session, ToIndex(call.release->block));
  call.filled = event.zero;
  call.filled.insert(call.filled.end(), event.poison.begin(), event.poison.end());
  for (const BlockId block : call.filled) {
    to_fill_.insert(ToIndex(block));
    is_unknown_[ToIndex(block)] = true;
  }
  // Which they are is told by the answer alone: till then, it is those that it has more.
  for (uint32_t i = 0; i < kBlocks; ++i) {
    const BlockInfo info = ledger_.GetBlock(BlockId{i});
    for (const BlockHolder& holder : info.holders) {
      if (holder.session != IdOf(call.session)) continue;
      const uint32_t had = slots_[call.session].references[i];
      Expect(holder.references >= had, "a call that is filled took references away");
      for (uint32_t n = had; n < holder.references; ++n) {
        call.blocks.push_back({.block = info.block, .generation = info.generation});
      }
    }
  }
  Expect(call.blocks.size() == call.count, "a call is given more or less than asked for");
  Take(call.session, call.blocks);
  fills_.push_back(std::move(call));
}

void World::FillEnded(bool ok) {
  PendingCall& call = fills_.front();
  for (const BlockId block : call.filled) {
    if (ok) is_unknown_[ToIndex(block)] = false;
  }
  Slot& slot = slots_[call.session];
  if (!IsSame(call) || !slot.is_live) return;
  slot.touched = now_;
  if (ok) return;
  for (const BlockRef& ref : call.blocks) {
    const uint32_t block = ToIndex(ref.block);
    if (slot.references[block] > 0 && after_[block].generation == ref.generation) {
      Drop(call.session, block);
    }
  }
}

void World::On(const PinDone& event) {
  const auto pin = std::ranges::find(pins_, event.id, &PinOfBlock::id);
  Expect(pin != pins_.end() && !pin->is_granted, "the turn of no pin");
  if (pin == pins_.end()) return;
  if (event.status.ok()) {
    pin->is_granted = true;
    return;
  }
  reached_.reasons.insert(GetErrorDetail(event.status).reason);
  slots_[pin->session].touched = now_;
  pins_.erase(pin);
}

void World::On(const SessionEnded& event) {
  Slot* slot = FindSlot(event.id);
  Expect(slot != nullptr && slot->is_live, "the end of no session");
  if (slot == nullptr) return;
  slot->is_live = false;
  slot->is_attached = false;
  slot->guarantee = 0;
  for (uint32_t i = 0; i < kBlocks; ++i) {
    const uint64_t generation = static_cast<uint64_t>(before_[i].generation);
    slot->left_behind[i] = slot->references[i] > 0 ? generation : 0;
    slot->references[i] = 0;
  }
}

void World::On(const SessionForgotten& event) {
  Slot* slot = FindSlot(event.id);
  Expect(slot != nullptr && slot->is_known && !slot->is_live, "nothing is left of no session");
  if (slot == nullptr) return;
  slot->is_known = false;
  slot->left_behind = {};
  slot->since = {};
}

void World::On(const MemberGone& event) {
  const Slot* slot = FindSlot(event.id);
  Expect(slot != nullptr && slot->is_live, "a member of no session is gone");
}

void World::On(const WatchReady& /*event*/) { Expect(false, "nobody watches"); }

void World::Take(uint8_t session, const std::vector<BlockRef>& blocks) {
  Slot& slot = slots_[session];
  for (size_t i = 0; i < blocks.size(); ++i) {
    const uint32_t block = ToIndex(blocks[i].block);
    if (slot.references[block]++ == 0) slot.since[block] = kBlocks * calls_ + i;
  }
}

void World::Drop(uint8_t session, uint32_t block) {
  uint32_t& count = slots_[session].references[block];
  Expect(count > 0,
         absl::StrCat("a reference to block ", block, " was dropped that was not there"));
  if (count > 0) --count;
}

void World::Use(const AllocAnswer& answer) {
  for (uint32_t i = 0; i < answer.matched_blocks; ++i) {
    last_use_[ToIndex(answer.blocks[i].block)] = calls_;
  }
}

std::optional<World::PendingCall>* World::PendingOf(PendingId id) {
  for (std::optional<PendingCall>* call : {&starting_, &waiting_}) {
    if (call->has_value() && (*call)->answer_to == id) return call;
  }
  return nullptr;
}

World::Slot* World::FindSlot(const SessionId& id) {
  for (Slot& slot : slots_) {
    if (slot.number > 0 && MakeSessionId(slot.number) == id) return &slot;
  }
  return nullptr;
}

bool World::IsSame(const PendingCall& call) const {
  return slots_[call.session].number == call.number;
}

}  // namespace kvpool::test
