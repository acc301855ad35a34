#include "core/ledger/retry_table.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace kvpool {
namespace {

// What the session holds by the answer.
std::span<const BlockRef> BlocksOf(const KeyedAnswer& answer) {
  if (const auto* alloc = std::get_if<AllocAnswer>(&answer)) return alloc->blocks;
  if (const auto* lookup = std::get_if<LookupAnswer>(&answer)) return lookup->blocks;
  return {};
}

bool HasDuplicates(const KeyedAnswer& answer) {
  const auto* publish = std::get_if<PublishAnswer>(&answer);
  return publish != nullptr && !publish->duplicates.empty();
}

}  // namespace

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
    if (entry.is_spent) continue;
    if (!IsSpent(entry.answer, is_held) && !HasDuplicates(entry.answer)) continue;
    block_count_ -= BlockCount(entry);
    entry.answer = std::monostate{};
    entry.is_spent = true;
  }
}

void RetryTable::Clear() {
  entries_ = {};
  order_ = {};
  block_count_ = 0;
}

uint64_t RetryTable::BlockCount(const Entry& entry) {
  if (const auto* publish = std::get_if<PublishAnswer>(&entry.answer)) {
    return publish->duplicates.size();
  }
  return BlocksOf(entry.answer).size();
}

bool IsSpent(const KeyedAnswer& answer, absl::FunctionRef<bool(const BlockRef&)> is_held) {
  return !std::ranges::all_of(BlocksOf(answer), is_held);
}

}  // namespace kvpool
