#pragma once

#include <atomic>
#include <cstddef>

namespace kvpool::server {

// How many bytes may be held at once. Thread-safe.
class MemoryBudget {
 public:
  explicit MemoryBudget(size_t max_bytes) : max_bytes_(max_bytes) {}

  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // False where more than max_bytes() would be held: nothing is taken then.
  bool Take(size_t bytes);
  // Requires that as much has been taken.
  void Give(size_t bytes);

  size_t taken_bytes() const { return taken_bytes_.load(std::memory_order_relaxed); }
  size_t max_bytes() const { return max_bytes_; }

 private:
  const size_t max_bytes_;
  std::atomic<size_t> taken_bytes_ = 0;
};

}  // namespace kvpool::server
