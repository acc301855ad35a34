#include "core/ledger/retry_table.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace kvpool {

const RetryTable::Entry* RetryTable::Find(uint64_t key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

void RetryTable::Remember(uint64_t key, uint64_t request, KeyedAnswer answer, uint32_t limit) {
  if (limit == 0) return;
  while (order_.size() >= limit) {
    const auto oldest = entries_.find(order_.front());
    block_count_ -= BlockCount(oldest->second);
    entries_.erase(oldest);
    order_.pop_front();
  }
  const auto [entry, is_new] =
      entries_.emplace(key, Entry{.request = request, .answer = std::move(answer)});
  KVPOOL_CHECK(is_new);
  order_.push_back(key);
  block_count_ += BlockCount(entry->second);
}

void RetryTable::Sweep(absl::FunctionRef<bool(const BlockRef&)> is_held) {
  for (const uint64_t key : order_) {
    Entry& entry = entries_.find(key)->second;
    if (entry.is_spent || !IsSpent(entry.answer, is_held)) continue;
    block_count_ -= BlockCount(entry);
    entry.answer = AllocAnswer{};
    entry.is_spent = true;
  }
}

void RetryTable::Clear() {
  entries_ = {};
  order_ = {};
  block_count_ = 0;
}

uint64_t RetryTable::BlockCount(const Entry& entry) {
  const auto* alloc = std::get_if<AllocAnswer>(&entry.answer);
  return alloc == nullptr ? 0 : alloc->blocks.size();
}

bool IsSpent(const KeyedAnswer& answer, absl::FunctionRef<bool(const BlockRef&)> is_held) {
  const auto* alloc = std::get_if<AllocAnswer>(&answer);
  return alloc != nullptr && !std::ranges::all_of(alloc->blocks, is_held);
}

}  // namespace kvpool
