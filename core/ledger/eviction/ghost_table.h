#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/ledger/eviction/paged_array.h"
#include "core/ledger/eviction/use_stamp.h"

namespace kvpool {

// What is remembered of an evicted block.
struct Ghost {
  uint64_t prefix = 0;
  UseStamp last_use{};
  bool is_seen_again = false;
};

// GhostTable remembers the blocks evicted last, about as many as a limit says, and finds them by
// prefix.
//
// It is a hash table that grows by a bucket for each ghost (linear hashing), so no call ever
// moves more than a few, and memory is 32 bytes for the most ghosts that there ever were. Equal
// prefixes count as the same block.
class GhostTable {
 public:
  // Requires a limit below 2^32 - 1.
  explicit GhostTable(uint32_t limit) : limit_(limit) {}

  GhostTable(const GhostTable&) = delete;
  GhostTable& operator=(const GhostTable&) = delete;

  // Remembers a ghost. Returns the one that it takes the place of: one with the same prefix, or
  // where there are as many as the limit allows the one put there first, or itself.
  std::optional<Ghost> Put(const Ghost& ghost);
  // Returns the ghost put there first, and forgets it, where there are more than the limit says:
  // it was set below what there was.
  std::optional<Ghost> TakeExcess();
  // Returns the ghost of that prefix, where there is one, and forgets it.
  std::optional<Ghost> Take(uint64_t prefix);

  // Requires a limit below 2^32 - 1. Forgets nothing by itself.
  void set_limit(uint32_t limit) { limit_ = limit; }
  uint32_t size() const { return size_; }
  // What it has allocated.
  size_t size_bytes() const { return entries_.size_bytes() + buckets_.size_bytes(); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kPageSize = 1024;

  // Of 4-byte parts, for an alignment that leaves no gap.
  struct Entry {
    std::array<uint32_t, 2> prefix{};
    std::array<uint32_t, 2> last_use{};  // The highest bit is is_seen_again.
    uint32_t next_in_bucket = kNone;
    uint32_t older = kNone;
    uint32_t newer = kNone;  // Of an unused one, the next unused.
  };
  static_assert(sizeof(Entry) == 28);

  static Entry Pack(const Ghost& ghost);
  static Ghost Unpack(const Entry& entry);
  uint32_t BucketOf(uint64_t prefix) const;
  // The link that leads to the prefix's entry; it holds kNone where there is none.
  uint32_t& LinkTo(uint64_t prefix);
  Ghost Drop(uint32_t& link);
  Ghost DropOldest();  // Requires that there is one.
  uint32_t MakeEntry();
  void AddBucket();

  uint32_t limit_;
  PagedArray<Entry, kPageSize> entries_;
  PagedArray<uint32_t, kPageSize> buckets_;  // The first entry of each.
  uint32_t bucket_count_ = 0;
  uint32_t entry_count_ = 0;  // Ever made.
  uint32_t size_ = 0;
  uint32_t oldest_ = kNone;
  uint32_t newest_ = kNone;
  uint32_t unused_ = kNone;
};

}  // namespace kvpool
