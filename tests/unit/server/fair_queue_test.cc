#include "server/fair_queue.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "server/worker_pool.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool::server {
namespace {

// Keeps what is posted until it is told to run it.
class ManualExecutor final : public Executor {
 public:
  void Post(absl::AnyInvocable<void()> work) override { posted_.push_back(std::move(work)); }

  size_t size() const { return posted_.size(); }
  void RunFirst() {
    absl::AnyInvocable<void()> work = std::move(posted_.front());
    posted_.pop_front();
    work();
  }
  void RunAll() {
    while (!posted_.empty()) RunFirst();
  }

 private:
  std::deque<absl::AnyInvocable<void()>> posted_;
};

TEST_CASE("FairQueue takes a piece of each in turn, and those of one in order") {
  ManualExecutor executor;
  FairQueue queue(executor, 1);
  std::vector<std::pair<uint64_t, int>> order;
  const auto post = [&](uint64_t owner, int piece) {
    queue.Post(ProcessId{owner}, [&order, owner, piece] { order.emplace_back(owner, piece); });
  };
  for (int piece = 0; piece < 4; ++piece) post(1, piece);
  post(2, 0);
  post(2, 1);
  post(3, 0);
  executor.RunAll();
  CHECK(order == std::vector<std::pair<uint64_t, int>>{
                     {1, 0}, {2, 0}, {3, 0}, {1, 1}, {2, 1}, {1, 2}, {1, 3}});
}

TEST_CASE("FairQueue has so many pieces with its executor and no more, so that others go between") {
  ManualExecutor executor;
  FairQueue queue(executor, 2);
  int runs = 0;
  for (int i = 0; i < 10; ++i) queue.Post(ProcessId{1}, [&] { ++runs; });
  CHECK(executor.size() == 2);
  bool other_ran = false;
  executor.Post([&] { other_ran = true; });
  for (int i = 0; i < 3; ++i) executor.RunFirst();
  CHECK(other_ran);
  CHECK(runs == 2);
  CHECK(executor.size() == 2);
  executor.RunAll();
  CHECK(runs == 10);
  // Woken again after it was empty.
  queue.Post(ProcessId{1}, [&] { ++runs; });
  executor.RunAll();
  CHECK(runs == 11);
}

TEST_CASE("FairQueue runs all of it, whatever posts what, and when") {
  const uint64_t seed = test::Seed();
  CAPTURE(seed);
  test::Random random(seed);
  constexpr uint64_t kOwners = 5;
  for (int round = 0; round < 200; ++round) {
    ManualExecutor executor;
    FairQueue queue(executor, 1 + random.Below(3));
    // What each has posted and what has run; a piece may post another.
    std::map<uint64_t, std::vector<uint32_t>> posted;
    std::map<uint64_t, std::vector<uint32_t>> run;
    uint32_t next = 0;
    const std::function<void(uint64_t, bool)> post = [&](uint64_t owner, bool again) {
      const uint32_t piece = next++;
      posted[owner].push_back(piece);
      queue.Post(ProcessId{owner}, [&, owner, piece, again] {
        run[owner].push_back(piece);
        if (again) post(owner, false);
      });
    };
    const uint32_t steps = random.Below(100);
    for (uint32_t step = 0; step < steps; ++step) {
      if (random.Below(3) > 0) {
        post(random.Below(kOwners), random.Below(4) == 0);
      } else if (executor.size() > 0) {
        executor.RunFirst();
      }
    }
    executor.RunAll();
    CHECK(run == posted);
  }
}

TEST_CASE("FairQueue on many threads runs each piece once") {
  std::atomic<int> runs = 0;
  WorkerPool pool("test", 3);
  FairQueue queue(pool, 3);
  {
    std::vector<std::jthread> posters;
    for (uint64_t owner = 0; owner < 4; ++owner) {
      posters.emplace_back([&, owner] {
        for (int i = 0; i < 2'000; ++i) queue.Post(ProcessId{owner}, [&] { ++runs; });
      });
    }
  }
  pool.Finish();
  CHECK(runs == 8'000);
}

}  // namespace
}  // namespace kvpool::server
