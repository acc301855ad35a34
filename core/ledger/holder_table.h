#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "core/ids.h"
#include "core/ledger/block_table.h"
#include "core/ledger/slots.h"

namespace kvpool {

// The holders of one session, in a list through them: the newest first.
struct HolderList {
  HolderSlot head = kNoHolder;
};

// HolderTable knows how many references each session has to each block, and lists the blocks of a
// session and the sessions of a block. Every operation takes constant time, however many there
// are of either.
//
// A block's first holder lies in its record; its slot is the block's number. Further ones, of
// shared blocks, lie in an array of their own and are found by hash. A holder keeps its slot as
// long as it lives. One without references stands for a claim.
class HolderTable {
 public:
  // `blocks` must outlive it.
  explicit HolderTable(BlockTable& blocks) : blocks_(blocks) {}

  HolderTable(const HolderTable&) = delete;
  HolderTable& operator=(const HolderTable&) = delete;

  // kNoHolder where the session has none on that block.
  HolderSlot Find(BlockId block, SessionSlot session) const {
    if (!blocks_.has_record(block)) return kNoHolder;
    const BlockRecord& record = blocks_.record(block);
    if (record.first.session == session) return HolderSlot{ToIndex(block)};
    return record.more == kNoHolder ? kNoHolder : FindFurther(block, session);
  }

  // Requires that the block is not free and the session has no holder on it.
  HolderSlot Add(BlockId block, SessionSlot session, uint32_t count, HolderList& list);
  void Remove(HolderSlot slot, HolderList& list);
  void Move(HolderSlot slot, HolderList& from, HolderList& to);

  Holder& at(HolderSlot slot) {
    return is_first(slot) ? blocks_.mutable_record(BlockId{ToIndex(slot)}).first
                          : further_[FurtherIndex(slot)].holder;
  }
  const Holder& at(HolderSlot slot) const { return const_cast<HolderTable*>(this)->at(slot); }
  BlockId block(HolderSlot slot) const {
    return is_first(slot) ? BlockId{ToIndex(slot)} : further_[FurtherIndex(slot)].block;
  }

  // Whether `condition(slot, holder)` holds for any of the block's holders, claims included.
  template <typename Condition>
  bool AnyOf(BlockId block, const Condition& condition) const;
  // The block's holders, claims included.
  std::vector<HolderSlot> ListHolders(BlockId block) const;

  // How many holders are not a block's first.
  size_t further_count() const { return further_by_key_.size(); }

 private:
  struct Further {
    Holder holder;
    BlockId block{};
    HolderSlot previous_of_block = kNoHolder;
    HolderSlot next_of_block = kNoHolder;  // Of an unused one, the next unused.
  };

  static uint64_t Key(BlockId block, SessionSlot session) {
    return uint64_t{ToIndex(block)} << 32 | ToIndex(session);
  }
  bool is_first(HolderSlot slot) const { return ToIndex(slot) < blocks_.num_blocks(); }
  uint32_t FurtherIndex(HolderSlot slot) const { return ToIndex(slot) - blocks_.num_blocks(); }
  HolderSlot FindFurther(BlockId block, SessionSlot session) const;
  HolderSlot MakeFurther(BlockId block, SessionSlot session);
  void DropFurther(HolderSlot slot);
  void Link(HolderSlot slot, HolderList& list);
  void Unlink(HolderSlot slot, HolderList& list);

  BlockTable& blocks_;
  std::vector<Further> further_;
  HolderSlot unused_ = kNoHolder;  // Of `further_`.
  absl::flat_hash_map<uint64_t, HolderSlot> further_by_key_;
};

template <typename Condition>
bool HolderTable::AnyOf(BlockId block, const Condition& condition) const {
  const BlockRecord& record = blocks_.record(block);
  const HolderSlot first{ToIndex(block)};
  if (record.first.session != kNoSession && condition(first, record.first)) return true;
  for (HolderSlot slot = record.more; slot != kNoHolder;) {
    const Further& further = further_[FurtherIndex(slot)];
    if (condition(slot, further.holder)) return true;
    slot = further.next_of_block;
  }
  return false;
}

}  // namespace kvpool
