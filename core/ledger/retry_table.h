#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <variant>

#include "absl/container/flat_hash_map.h"

#include "core/ledger/cache_calls.h"
#include "core/ledger/calls.h"

namespace kvpool {

// The answer to a keyed call. IncRef's says nothing.
using KeyedAnswer =
    std::variant<std::monostate, AllocAnswer, DecRefAnswer, PublishAnswer, LookupAnswer>;

// RetryTable remembers the answers to one session's latest keyed calls that succeeded.
//
// Answers name blocks, several maybe the same: a prefix found over and over. SpendOldest keeps the
// memory in proportion to what the session holds.
class RetryTable {
 public:
  struct Entry {
    uint64_t request = 0;  // A hash of the call.
    KeyedAnswer answer;
    bool is_spent = false;  // What it said is not known any more.
  };

  RetryTable() = default;
  RetryTable(const RetryTable&) = delete;
  RetryTable& operator=(const RetryTable&) = delete;

  // Null where the key is not known.
  const Entry* Find(uint64_t key) const;

  // Remembers at most `limit` answers: the oldest makes room. Requires an unknown key.
  void Remember(uint64_t key, uint64_t request, KeyedAnswer answer, uint32_t limit);

  // Empties, and marks as spent, the oldest answers that name blocks, the newest of all excepted,
  // until what is left names `max_blocks` at most. Takes constant time in the mean.
  void SpendOldest(uint64_t max_blocks);

  void Clear();

  // Blocks named by the answers, in all.
  uint64_t block_count() const { return block_count_; }
  size_t size() const { return order_.size(); }

 private:
  static uint64_t BlockCount(const Entry& entry);

  absl::flat_hash_map<uint64_t, Entry> entries_;
  std::deque<uint64_t> order_;  // The keys, the oldest answer's first.
  size_t next_to_spend_ = 0;    // In `order_`: those before name no blocks.
  uint64_t block_count_ = 0;
};

// The blocks that the session holds by the answer.
std::span<const BlockRef> HeldBy(const KeyedAnswer& answer);

}  // namespace kvpool
