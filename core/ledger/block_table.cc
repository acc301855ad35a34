#include "core/ledger/block_table.h"

#include <algorithm>

#include "core/check.h"

namespace kvpool {

const BlockRecord BlockTable::kUntouched = {};

BlockTable::BlockTable(uint32_t num_blocks, uint64_t before_first_generation)
    : num_blocks_(num_blocks), before_first_generation_(before_first_generation) {
  KVPOOL_CHECK(num_blocks > 0);
  // Address space alone: pages come as blocks are taken for the first time.
  records_.reserve(num_blocks);
}

BlockId BlockTable::Take() {
  uint32_t index = free_top_;
  if (index != UINT32_MAX) {
    free_top_ = ToIndex(records_[index].first.next);
  } else {
    index = static_cast<uint32_t>(records_.size());
    KVPOOL_CHECK(index < num_blocks_);
    records_.emplace_back();
    records_.back().generation = before_first_generation_;
  }
  BlockRecord& record = records_[index];
  ++record.generation;
  record.references = 1;
  record.first.next = kNoHolder;
  ++held_count_;
  NoteChange(BlockId{index}, record);
  return BlockId{index};
}

void BlockTable::AddReference(BlockId block) {
  BlockRecord& record = records_[ToIndex(block)];
  KVPOOL_CHECK(record.references < UINT32_MAX);
  NoteChange(block, record);
  if (record.references == 0) {
    KVPOOL_CHECK(record.has(BlockRecord::kFindable));
    --(record.has(BlockRecord::kPinned) ? quarantined_count_ : cached_count_);
    ++held_count_;
  }
  most_references_ = std::max(most_references_, ++record.references);
}

BlockState BlockTable::DropReferences(BlockId block, uint32_t count) {
  BlockRecord& record = records_[ToIndex(block)];
  KVPOOL_CHECK(count > 0 && record.references >= count);
  NoteChange(block, record);
  record.references -= count;
  if (record.references > 0) return BlockState::kHeld;
  return LeaveHeld(block, record);
}

BlockState BlockTable::DropClaim(BlockId block) {
  BlockRecord& record = records_[ToIndex(block)];
  KVPOOL_CHECK(record.claims > 0);
  NoteChange(block, record);
  --record.claims;
  return LeaveQuarantine(block, record);
}

BlockState BlockTable::ClearPinned(BlockId block) {
  BlockRecord& record = records_[ToIndex(block)];
  KVPOOL_CHECK(record.has(BlockRecord::kPinned));
  NoteChange(block, record);
  record.flags = static_cast<uint16_t>(record.flags & ~BlockRecord::kPinned);
  return LeaveQuarantine(block, record);
}

void BlockTable::SetFindable(BlockId block) {
  BlockRecord& record = records_[ToIndex(block)];
  KVPOOL_CHECK(record.references > 0 && record.claims == 0 && !record.has(BlockRecord::kFindable));
  NoteChange(block, record);
  record.flags |= BlockRecord::kFindable | BlockRecord::kSealed;
  ++findable_count_;
}

BlockState BlockTable::ClearFindable(BlockId block) {
  BlockRecord& record = records_[ToIndex(block)];
  KVPOOL_CHECK(record.has(BlockRecord::kFindable));
  NoteChange(block, record);
  record.flags = static_cast<uint16_t>(record.flags & ~BlockRecord::kFindable);
  --findable_count_;
  if (record.references > 0) return BlockState::kHeld;
  if (record.has(BlockRecord::kPinned)) return BlockState::kQuarantined;
  --cached_count_;
  PushFree(block, record);
  return BlockState::kFree;
}

void BlockTable::AddClaim(BlockId block) {
  BlockRecord& record = records_[ToIndex(block)];
  KVPOOL_CHECK(state(block) != BlockState::kFree && record.claims < UINT16_MAX);
  NoteChange(block, record);
  ++record.claims;
}

void BlockTable::SetPinned(BlockId block) {
  BlockRecord& record = records_[ToIndex(block)];
  KVPOOL_CHECK(state(block) != BlockState::kFree);
  NoteChange(block, record);
  record.flags |= BlockRecord::kPinned;
}

BlockState BlockTable::state(BlockId block) const {
  const BlockRecord& record = this->record(block);
  if (record.references > 0) return BlockState::kHeld;
  if (record.claims > 0 || record.has(BlockRecord::kPinned)) return BlockState::kQuarantined;
  return record.has(BlockRecord::kFindable) ? BlockState::kCached : BlockState::kFree;
}

std::vector<BlockId> BlockTable::FreeStack() const {
  std::vector<BlockId> stack;
  // A cycle would be a fault: it must not hang whoever looks for faults.
  for (uint32_t index = free_top_; index != UINT32_MAX && stack.size() <= records_.size();
       index = ToIndex(records_[index].first.next)) {
    stack.push_back(BlockId{index});
  }
  return stack;
}

BlockState BlockTable::LeaveHeld(BlockId block, BlockRecord& record) {
  --held_count_;
  if (record.claims > 0 || record.has(BlockRecord::kPinned)) {
    ++quarantined_count_;
    return BlockState::kQuarantined;
  }
  return SettleUnheld(block, record);
}

BlockState BlockTable::LeaveQuarantine(BlockId block, BlockRecord& record) {
  if (record.references > 0) return BlockState::kHeld;
  if (record.claims > 0 || record.has(BlockRecord::kPinned)) return BlockState::kQuarantined;
  --quarantined_count_;
  return SettleUnheld(block, record);
}

BlockState BlockTable::SettleUnheld(BlockId block, BlockRecord& record) {
  if (record.has(BlockRecord::kFindable)) {
    ++cached_count_;
    return BlockState::kCached;
  }
  PushFree(block, record);
  return BlockState::kFree;
}

void BlockTable::NoteWatched(BlockId block, BlockRecord& record) {
  record.flags = static_cast<uint16_t>(record.flags & ~BlockRecord::kWatched);
  changed_.push_back(block);
}

void BlockTable::PushFree(BlockId block, BlockRecord& record) {
  KVPOOL_CHECK(record.first.session == kNoSession && record.more == kNoHolder);
  record.flags = static_cast<uint16_t>(record.flags & BlockRecord::kUnknown);
  record.first.next = HolderSlot{free_top_};
  free_top_ = ToIndex(block);
}

}  // namespace kvpool
