#include "server/memory_budget.h"

#include "core/check.h"

namespace kvpool::server {

bool MemoryBudget::Take(size_t bytes) {
  size_t taken = taken_bytes_.load(std::memory_order_relaxed);
  do {
    if (bytes > max_bytes_ - taken) return false;
  } while (!taken_bytes_.compare_exchange_weak(taken, taken + bytes, std::memory_order_relaxed));
  return true;
}

void MemoryBudget::Give(size_t bytes) {
  const size_t taken = taken_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  KVPOOL_CHECK(bytes <= taken);
}

}  // namespace kvpool::server
