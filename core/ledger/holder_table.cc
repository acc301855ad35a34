#include "core/ledger/holder_table.h"

#include "core/check.h"

namespace kvpool {

HolderSlot HolderTable::Add(BlockId block, SessionSlot session, uint32_t count, HolderList& list) {
  Holder& first = blocks_.mutable_record(block).first;
  const HolderSlot slot =
      first.session == kNoSession ? HolderSlot{ToIndex(block)} : MakeFurther(block, session);
  Holder& holder = at(slot);
  holder.session = session;
  holder.count = count;
  Link(slot, list);
  return slot;
}

void HolderTable::Remove(HolderSlot slot, HolderList& list) {
  Unlink(slot, list);
  if (!is_first(slot)) DropFurther(slot);
  at(slot) = Holder{};
}

void HolderTable::Move(HolderSlot slot, HolderList& from, HolderList& to) {
  Unlink(slot, from);
  Link(slot, to);
}

std::vector<HolderSlot> HolderTable::ListHolders(BlockId block) const {
  std::vector<HolderSlot> slots;
  AnyOf(block, [&slots](HolderSlot slot, const Holder& /*holder*/) {
    slots.push_back(slot);
    return false;
  });
  return slots;
}

HolderSlot HolderTable::FindFurther(BlockId block, SessionSlot session) const {
  const auto found = further_by_key_.find(Key(block, session));
  return found == further_by_key_.end() ? kNoHolder : found->second;
}

HolderSlot HolderTable::MakeFurther(BlockId block, SessionSlot session) {
  HolderSlot slot = unused_;
  if (slot != kNoHolder) {
    unused_ = further_[FurtherIndex(slot)].next_of_block;
  } else {
    const uint64_t next = uint64_t{blocks_.num_blocks()} + further_.size();
    KVPOOL_CHECK(next < ToIndex(kNoHolder));
    slot = HolderSlot{static_cast<uint32_t>(next)};
    further_.emplace_back();
  }
  Further& further = further_[FurtherIndex(slot)];
  BlockRecord& record = blocks_.mutable_record(block);
  further.block = block;
  further.previous_of_block = kNoHolder;
  further.next_of_block = record.more;
  if (record.more != kNoHolder) further_[FurtherIndex(record.more)].previous_of_block = slot;
  record.more = slot;
  const bool is_new = further_by_key_.emplace(Key(block, session), slot).second;
  KVPOOL_CHECK(is_new);
  return slot;
}

void HolderTable::DropFurther(HolderSlot slot) {
  Further& further = further_[FurtherIndex(slot)];
  BlockRecord& record = blocks_.mutable_record(further.block);
  if (further.previous_of_block != kNoHolder) {
    further_[FurtherIndex(further.previous_of_block)].next_of_block = further.next_of_block;
  } else {
    record.more = further.next_of_block;
  }
  if (further.next_of_block != kNoHolder) {
    further_[FurtherIndex(further.next_of_block)].previous_of_block = further.previous_of_block;
  }
  const size_t erased = further_by_key_.erase(Key(further.block, further.holder.session));
  KVPOOL_CHECK(erased == 1);
  further.next_of_block = unused_;
  unused_ = slot;
}

void HolderTable::Link(HolderSlot slot, HolderList& list) {
  Holder& holder = at(slot);
  holder.previous = kNoHolder;
  holder.next = list.head;
  if (list.head != kNoHolder) at(list.head).previous = slot;
  list.head = slot;
}

void HolderTable::Unlink(HolderSlot slot, HolderList& list) {
  const Holder holder = at(slot);
  if (holder.previous != kNoHolder) {
    at(holder.previous).next = holder.next;
  } else {
    list.head = holder.next;
  }
  if (holder.next != kNoHolder) at(holder.next).previous = holder.previous;
}

}  // namespace kvpool
