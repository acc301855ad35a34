#include <algorithm>
#include <numeric>
#include <tuple>

#include "tests/model/exhaustive/world.h"
#include "tests/model/ledger/call_text.h"

// When two worlds are the same. What is written down is bytes, for speed.

namespace kvpool::test {
namespace {

void Put(std::string& text, uint64_t value) { text.push_back(static_cast<char>(value)); }

// Milliseconds are exact: every time in a run is whole seconds.
void PutTime(std::string& text, Duration duration) {
  Put(text,
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(duration).count()));
}

// How many of `values` are below that of `block`, which puts them by their order.
template <typename Values>
uint64_t RankOf(const Values& values, uint32_t block) {
  return static_cast<uint64_t>(
      std::ranges::count_if(values, [&](auto value) { return value < values[block]; }));
}

}  // namespace

std::string World::DescribeBlock(uint32_t block) const {
  const BlockInfo& info = after_[block];
  std::string text;
  Put(text, static_cast<uint64_t>(info.state));
  Put(text, (info.generation == Generation{} ? 0U : 1U) | (info.published ? 2U : 0U) |
                (info.sealed ? 4U : 0U) | (info.claimed ? 8U : 0U) |
                (is_unknown_[block] ? 16U : 0U));
  Put(text, info.ref_count);
  Put(text, info.sealed ? text_[block].size() : 0);
  Put(text, info.tenant.empty() ? 0 : info.tenant == options_.tenants[0] ? 1 : 2);
  Put(text, info.published ? RankOf(last_use_, block) : 0);
  for (const Slot& slot : slots_) {
    uint32_t references = 0;
    for (const BlockHolder& holder : info.holders) {
      if (slot.number > 0 && holder.session == MakeSessionId(slot.number)) {
        references = holder.references;
      }
    }
    Put(text, references);
    const bool is_left = slot.left_behind[block] == static_cast<uint64_t>(info.generation);
    Put(text, slot.left_behind[block] > 0 && is_left ? 1 : 0);
    Put(text, references > 0 || is_left ? RankOf(slot.since, block) : 0);
  }
  for (const PinOfBlock& pin : pins_) {
    Put(text, pin.block != block ? 0 : (pin.is_granted ? 1U : 2U) + (pin.is_write ? 2U : 0U));
  }
  return text;
}

std::string World::Describe(const std::vector<uint8_t>& order) const {
  std::array<std::string, kBlocks> blocks;
  for (uint32_t i = 0; i < kBlocks; ++i) blocks[i] = DescribeBlock(i);
  const auto rank_of = [&](uint32_t block) {
    return std::ranges::find(order, static_cast<uint8_t>(block)) - order.begin();
  };
  std::array<uint32_t, kBlocks> by_name{};
  std::iota(by_name.begin(), by_name.end(), 0U);
  std::ranges::sort(by_name, {}, [&](uint32_t block) {
    return std::make_tuple(std::cref(blocks[block]), rank_of(block), block);
  });
  std::array<uint32_t, kBlocks> name{};
  std::string text;
  for (uint32_t i = 0; i < kBlocks; ++i) {
    name[by_name[i]] = i;
    text += blocks[by_name[i]];
  }
  for (const uint8_t block : order) Put(text, name[block]);
  for (const Slot& slot : slots_) DescribeSlot(slot, text);
  const auto put_call = [&](const PendingCall& call) {
    Put(text, 1U + call.session);
    Put(text, IsSame(call) ? 1 : 0);
    Put(text, call.count | (call.is_acquire ? 16U : 0U));
    Put(text, call.release.has_value() ? 1 + name[ToIndex(call.release->block)] : 0);
    // Another generation is let go of in vain.
    Put(text, call.release.has_value() &&
                      call.release->generation == after_[ToIndex(call.release->block)].generation
                  ? 1
                  : 0);
    for (const BlockRef& ref : call.blocks) {
      Put(text, name[ToIndex(ref.block)]);
      Put(text, ref.generation == after_[ToIndex(ref.block)].generation ? 1 : 0);
    }
    for (const BlockId block : call.filled) Put(text, name[ToIndex(block)]);
    Put(text, call.is_answered ? 1 : 0);
  };
  if (waiting_.has_value()) put_call(*waiting_);
  Put(text, fills_.size());
  for (const PendingCall& fill : fills_) put_call(fill);
  Put(text, pins_.size());
  for (const PinOfBlock& pin : pins_) {
    Put(text, pin.session);
    Put(text, name[pin.block]);
  }
  if (due_.has_value()) PutTime(text, *due_ - now_);
  if (!keyed_.has_value()) return text;
  Put(text, static_cast<uint64_t>(keyed_->letter.op) + 1);
  Put(text, keyed_->letter.session);
  Put(text, keyed_->letter.number);
  Put(text, slots_[keyed_->letter.session].number == keyed_->number ? 1 : 0);
  Put(text, keyed_->pending == PendingId{} ? 0 : 1);
  for (const BlockRef& ref : keyed_->blocks) {
    Put(text, name[ToIndex(ref.block)]);
    Put(text, ref.generation == after_[ToIndex(ref.block)].generation ? 1 : 0);
  }
  return text;
}

void World::DescribeSlot(const Slot& slot, std::string& text) const {
  Put(text, (slot.number > 0 ? 1U : 0U) | (slot.is_known ? 2U : 0U) | (slot.is_live ? 4U : 0U) |
                (slot.is_attached ? 8U : 0U) | (slot.is_joined ? 16U : 0U) |
                (slot.is_process_gone ? 32U : 0U) | (slot.guarantee > 0 ? 64U : 0U));
  if (slot.is_live && !slot.is_attached) PutTime(text, now_ - slot.touched);
  if (!slot.is_known || slot.is_live) return;
  Put(text, static_cast<uint64_t>(slot.state));
  // Which of two ended first.
  Put(text, RankOf(std::array{slots_[0].number, slots_[1].number},
                   static_cast<uint32_t>(&slot - slots_.data())));
}

std::vector<uint8_t> World::TakeAll() {
  if (waiting_.has_value()) ledger_.Cancel(waiting_->answer_to, now_);
  const SessionId id = MakeSessionId(1'000);
  std::vector<uint8_t> order;
  const Caller caller = {.session = id, .tenant = "nobody"};
  if (!ledger_.OpenSession({.id = id, .tenant = caller.tenant, .ttl = {}}, now_).ok()) return order;
  const auto outcome =
      ledger_.Alloc({.caller = caller, .count = kBlocks, .allow_partial = true}, now_);
  if (!outcome.ok()) return order;
  std::vector<BlockRef> blocks = outcome->answer.blocks;
  if (outcome->pending != PendingId{}) {
    ledger_.FillDone(outcome->pending, absl::OkStatus(), now_);
    for (const LedgerEvent& event : ledger_.TakeEvents()) {
      const auto* done = std::get_if<AllocDone>(&event);
      if (done != nullptr && done->id == outcome->pending && done->result.ok()) {
        blocks = done->result->blocks;
      }
    }
  }
  for (const BlockRef& ref : blocks) order.push_back(static_cast<uint8_t>(ToIndex(ref.block)));
  return order;
}

}  // namespace kvpool::test
