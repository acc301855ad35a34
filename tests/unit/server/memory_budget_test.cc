#include "server/memory_budget.h"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace kvpool::server {
namespace {

TEST_CASE("A MemoryBudget gives all it has and not a byte more") {
  MemoryBudget budget(100);
  CHECK(budget.Take(60));
  CHECK_FALSE(budget.Take(41));
  CHECK(budget.taken_bytes() == 60);
  CHECK(budget.Take(40));
  CHECK(budget.Take(0));
  CHECK_FALSE(budget.Take(1));
  CHECK_FALSE(budget.Take(SIZE_MAX));
  budget.Give(100);
  CHECK(budget.taken_bytes() == 0);
  CHECK(budget.Take(100));
}

TEST_CASE("A MemoryBudget that threads share is never overdrawn, and ends where it began") {
  constexpr size_t kMaxBytes = 10;
  MemoryBudget budget(kMaxBytes);
  std::atomic<size_t> most = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 10'000; ++j) {
          if (!budget.Take(3)) continue;
          size_t seen = most;
          const size_t taken = budget.taken_bytes();
          while (taken > seen && !most.compare_exchange_weak(seen, taken)) {
          }
          budget.Give(3);
        }
      });
    }
  }
  CHECK(most <= kMaxBytes);
  CHECK(budget.taken_bytes() == 0);
}

}  // namespace
}  // namespace kvpool::server
