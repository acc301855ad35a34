#include "client/cli/replay/optimum.h"

#include <queue>
#include <utility>

#include "absl/container/flat_hash_map.h"

#include "core/check.h"

namespace kvpool::replay {

Optimum::Optimum(const Trace& trace) {
  constexpr uint32_t kRoot = UINT32_MAX;
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, uint32_t> prefixes;
  uses_.reserve(trace.block_count());
  for (const TraceRequest& request : trace.requests()) {
    first_use_.push_back(uses_.size());
    uint32_t parent = kRoot;
    for (const uint64_t name : trace.blocks(request)) {
      const auto number = static_cast<uint32_t>(prefixes.size());
      parent = prefixes.try_emplace({parent, name}, number).first->second;
      uses_.push_back({.prefix = parent, .next_request = kNever});
    }
  }
  first_use_.push_back(uses_.size());
  unique_count_ = prefixes.size();

  std::vector<uint32_t> next_request(unique_count_, kNever);
  for (size_t request = trace.requests().size(); request-- > 0;) {
    for (size_t i = first_use_[request]; i < first_use_[request + 1]; ++i) {
      uses_[i].next_request = next_request[uses_[i].prefix];
      next_request[uses_[i].prefix] = static_cast<uint32_t>(request);
    }
  }
}

uint64_t Optimum::CountHits(size_t capacity) const {
  constexpr uint32_t kNotCached = 0;  // Nothing is used again by the first request.
  std::vector<uint32_t> next_request(unique_count_, kNotCached);
  // Who is used again last is on top: its continuations before a block. Where a block's next use
  // is another by now, its place is void.
  std::priority_queue<std::pair<uint32_t, uint32_t>> order;
  size_t cached_count = 0;
  uint64_t hits = 0;
  for (size_t request = 0; request + 1 < first_use_.size(); ++request) {
    for (size_t i = first_use_[request]; i < first_use_[request + 1]; ++i) {
      uint32_t& next = next_request[uses_[i].prefix];
      if (next != kNotCached) {
        ++hits;
      } else {
        ++cached_count;
      }
      next = uses_[i].next_request;
      order.emplace(next, uses_[i].prefix);
    }
    while (cached_count > capacity) {
      const auto [next, prefix] = order.top();
      order.pop();
      if (next_request[prefix] != next) continue;
      next_request[prefix] = kNotCached;
      --cached_count;
    }
  }
  return hits;
}

}  // namespace kvpool::replay
