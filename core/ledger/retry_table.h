#pragma once

#include <cstdint>
#include <deque>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"

#include "core/ledger/cache_calls.h"
#include "core/ledger/calls.h"

namespace kvpool {

// The answer to a keyed call. IncRef's says nothing.
using KeyedAnswer =
    std::variant<std::monostate, AllocAnswer, DecRefAnswer, PublishAnswer, LookupAnswer>;

// RetryTable remembers the answers to one session's latest keyed calls that succeeded.
//
// Answers name blocks, and blocks that the session let go make them worthless. Sweep drops the
// lists of those, so that the memory stays in proportion to what the session holds: answers that
// are not spent name different blocks, all of them held.
class RetryTable {
 public:
  struct Entry {
    uint64_t request = 0;  // A hash of the call.
    KeyedAnswer answer;
    bool is_spent = false;
  };

  RetryTable() = default;
  RetryTable(const RetryTable&) = delete;
  RetryTable& operator=(const RetryTable&) = delete;

  // Null where the key is not known.
  const Entry* Find(uint64_t key) const;

  // Remembers at most `limit` answers: the oldest makes room. Requires an unknown key.
  void Remember(uint64_t key, uint64_t request, KeyedAnswer answer, uint32_t limit);

  // Marks as spent, and empties, the answers with a block that `is_held` denies, or with
  // duplicates, which nobody holds by them.
  void Sweep(absl::FunctionRef<bool(const BlockRef&)> is_held);

  void Clear();

  // Blocks named by the answers, in all.
  uint64_t block_count() const { return block_count_; }
  size_t size() const { return order_.size(); }

 private:
  static uint64_t BlockCount(const Entry& entry);

  absl::flat_hash_map<uint64_t, Entry> entries_;
  std::deque<uint64_t> order_;  // The keys, the oldest answer's first.
  uint64_t block_count_ = 0;
};

// Whether the session should hold a block by `answer` that `is_held` denies.
bool IsSpent(const KeyedAnswer& answer, absl::FunctionRef<bool(const BlockRef&)> is_held);

}  // namespace kvpool
