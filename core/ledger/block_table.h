#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.h"
#include "core/ledger/slots.h"
#include "core/ledger/status.h"

namespace kvpool {

// One session's references to one block, in the list of all that the session holds.
struct Holder {
  SessionSlot session = kNoSession;
  uint32_t count = 0;
  HolderSlot previous = kNoHolder;
  HolderSlot next = kNoHolder;
};

// What the ledger knows of a block. 40 bytes: 10^7 of them are the bulk of its memory.
struct BlockRecord {
  enum Flag : uint16_t {
    kPinned = 1,     // A granted pin is on it.
    kSealed = 2,     // Nobody writes to it until it is free.
    kUnknown = 4,    // A fill of it failed or is under way: nobody may trust its bytes.
    kWatched = 8,    // A waiting call offers it: see BlockTable::changed.
    kAdding = 16,    // Of References::CheckAdd alone, for its while.
    kFindable = 32,  // The cache has a reference to it. Only of sealed ones.
  };

  uint64_t generation = 0;  // 0: never taken.
  Holder first;             // Of a free block, `next` is the free block under it, as a number.
  uint32_t references = 0;  // Of sessions.
  TenantSlot tenant = kNoTenant;  // Whose it is, or was last.
  HolderSlot more = kNoHolder;    // The newest holder that is not `first`.
  uint16_t claims = 0;
  uint16_t flags = 0;

  bool has(Flag flag) const { return (flags & flag) != 0; }
};
static_assert(sizeof(BlockRecord) == 40);

// BlockTable counts the references, claims and pins of each block, and keeps the free ones.
//
// Invariant: a block is free exactly when it has no reference, the cache's included, no claim and
// no pin; free + cached + held + quarantined = num_blocks. Free blocks are a stack, as if begun
// with 0 on top; it is threaded through their records, and records above the highest block ever
// taken are not made yet, so that opening a pool costs nothing.
class BlockTable {
 public:
  // A block's first generation is the one after `before_first_generation`.
  explicit BlockTable(uint32_t num_blocks, uint64_t before_first_generation = 0);

  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  // Takes the free block on top: it has one reference now, and a generation of its own.
  // Requires free_count() > 0.
  BlockId Take();

  // Requires a reference already, the cache's included, and fewer than 2^32 - 1 of sessions.
  void AddReference(BlockId block);
  // These return what the block then is. Require what they take away.
  BlockState DropReferences(BlockId block, uint32_t count);
  BlockState DropClaim(BlockId block);
  BlockState ClearPinned(BlockId block);
  BlockState ClearFindable(BlockId block);
  // The block is findable, and sealed. Requires a held one without a claim.
  void SetFindable(BlockId block);
  // Require a block that is not free.
  void AddClaim(BlockId block);
  void SetPinned(BlockId block);

  BlockState state(BlockId block) const;
  // Sessions' references and the cache's one.
  uint32_t ref_count(BlockId block) const {
    return record(block).references + (record(block).has(BlockRecord::kFindable) ? 1 : 0);
  }
  // No block ever had more references of sessions.
  uint32_t most_references() const { return most_references_; }
  // Whether the block was ever taken: those that were not have no record to change.
  bool has_record(BlockId block) const { return ToIndex(block) < records_.size(); }
  // Whether the block, which was taken, is in the hands of its first owner.
  bool is_first_owner(BlockId block) const {
    return record(block).generation == before_first_generation_ + 1;
  }
  // A hint that the block's record is looked at soon. Requires that it was ever taken.
  void Prefetch(BlockId block) const { __builtin_prefetch(&records_[ToIndex(block)]); }
  BlockRecord& mutable_record(BlockId block) { return records_[ToIndex(block)]; }
  const BlockRecord& record(BlockId block) const {
    return has_record(block) ? records_[ToIndex(block)] : kUntouched;
  }

  uint32_t num_blocks() const { return num_blocks_; }
  uint32_t free_count() const { return obtainable_count() - cached_count_; }
  uint32_t cached_count() const { return cached_count_; }
  // Free and cached.
  uint32_t obtainable_count() const { return num_blocks_ - held_count_ - quarantined_count_; }
  uint32_t findable_count() const { return findable_count_; }
  uint32_t held_count() const { return held_count_; }
  uint32_t quarantined_count() const { return quarantined_count_; }
  // The blocks about which anything changed while they were watched, which ended by that.
  const std::vector<BlockId>& changed() const { return changed_; }
  void ClearChanged() { changed_.clear(); }

  // The free blocks that have a record, the top first. For checks.
  std::vector<BlockId> FreeStack() const;

 private:
  static const BlockRecord kUntouched;

  // Settles a block that lost its last reference, claim or pin.
  BlockState LeaveHeld(BlockId block, BlockRecord& record);
  BlockState LeaveQuarantine(BlockId block, BlockRecord& record);
  BlockState SettleUnheld(BlockId block, BlockRecord& record);
  void PushFree(BlockId block, BlockRecord& record);
  void NoteChange(BlockId block, BlockRecord& record) {
    if (record.has(BlockRecord::kWatched)) NoteWatched(block, record);
  }
  void NoteWatched(BlockId block, BlockRecord& record);

  const uint32_t num_blocks_;
  const uint64_t before_first_generation_;
  std::vector<BlockRecord> records_;  // Of the blocks ever taken.
  uint32_t free_top_ = UINT32_MAX;    // The block freed last.
  uint32_t held_count_ = 0;
  uint32_t cached_count_ = 0;
  uint32_t findable_count_ = 0;
  uint32_t most_references_ = 0;
  uint32_t quarantined_count_ = 0;
  std::vector<BlockId> changed_;
};

}  // namespace kvpool
