#include "core/ledger/retry_table.h"

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
    if (next_to_spend_ > 0) --next_to_spend_;
  }
  const auto [entry, is_new] =
      entries_.emplace(key, Entry{.request = request, .answer = std::move(answer)});
  KVPOOL_CHECK(is_new);
  order_.push_back(key);
  block_count_ += BlockCount(entry->second);
}

void RetryTable::SpendOldest(uint64_t max_blocks) {
  for (; block_count_ > max_blocks && next_to_spend_ + 1 < order_.size(); ++next_to_spend_) {
    Entry& entry = entries_.find(order_[next_to_spend_])->second;
    const uint64_t count = BlockCount(entry);
    if (count == 0) continue;
    block_count_ -= count;
    entry.answer = std::monostate{};
    entry.is_spent = true;
  }
}

void RetryTable::Clear() {
  entries_ = {};
  order_ = {};
  next_to_spend_ = 0;
  block_count_ = 0;
}

uint64_t RetryTable::BlockCount(const Entry& entry) {
  if (const auto* publish = std::get_if<PublishAnswer>(&entry.answer)) {
    return publish->duplicates.size();
  }
  return HeldBy(entry.answer).size();
}

std::span<const BlockRef> HeldBy(const KeyedAnswer& answer) {
  if (const auto* alloc = std::get_if<AllocAnswer>(&answer)) return alloc->blocks;
  if (const auto* lookup = std::get_if<LookupAnswer>(&answer)) return lookup->blocks;
  return {};
}

}  // namespace kvpool
