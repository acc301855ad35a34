#pragma once

#include <cstdint>

#include "core/ids.h"
#include "core/ledger/prefix/keyed_table.h"
#include "core/ledger/prefix/prefix_key.h"
#include "core/ledger/prefix/prefix_slots.h"

namespace kvpool {

// What the index knows of a block that was published. A cache line: finding it is one miss.
struct alignas(64) PrefixEntry {
  enum class State : uint8_t {
    kUnused,
    kIndexed,     // Findable, or old: a reset has made it unfindable and it is to be taken.
    kRemembered,  // Not findable any more; the block is sealed under this key still.
  };

  PrefixKey key;
  uint32_t next_in_bucket = 0;
  BlockId block{};
  EntrySlot parent = kNoEntry;  // Of an old one, not to be followed.
  SpaceSlot space = kNoSpace;
  uint32_t child_count = 0;  // Findable blocks whose parent it is.
  EntrySlot previous = kNoEntry;
  EntrySlot next = kNoEntry;
  State state = State::kUnused;
  bool is_marked = false;  // A snapshot may stand after it.
};
static_assert(sizeof(PrefixEntry) == 64);

using EntryTable = KeyedTable<PrefixEntry>;

// EntryList is a list through entries, in the order in which they were appended.
class EntryList {
 public:
  void Append(EntrySlot slot, EntryTable& entries) {
    PrefixEntry& entry = entries[ToIndex(slot)];
    entry.previous = tail_;
    entry.next = kNoEntry;
    (tail_ == kNoEntry ? head_ : entries[ToIndex(tail_)].next) = slot;
    tail_ = slot;
  }

  void Remove(EntrySlot slot, EntryTable& entries) {
    const PrefixEntry& entry = entries[ToIndex(slot)];
    (entry.previous == kNoEntry ? head_ : entries[ToIndex(entry.previous)].next) = entry.next;
    (entry.next == kNoEntry ? tail_ : entries[ToIndex(entry.next)].previous) = entry.previous;
  }

  // Takes all of `other`, which is empty then.
  void AppendAll(EntryList& other, EntryTable& entries) {
    if (other.is_empty()) return;
    entries[ToIndex(other.head_)].previous = tail_;
    (tail_ == kNoEntry ? head_ : entries[ToIndex(tail_)].next) = other.head_;
    tail_ = other.tail_;
    other = EntryList();
  }

  EntrySlot head() const { return head_; }
  EntrySlot tail() const { return tail_; }
  bool is_empty() const { return head_ == kNoEntry; }

 private:
  EntrySlot head_ = kNoEntry;
  EntrySlot tail_ = kNoEntry;
};

}  // namespace kvpool
