#include "server/worker_pool.h"

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace kvpool::server {
namespace {

TEST_CASE("WorkerPool runs work in the order posted where it has one thread") {
  std::vector<int> order;
  {
    WorkerPool pool("test", 1);
    for (int i = 0; i < 100; ++i) pool.Post([&order, i] { order.push_back(i); });
  }
  REQUIRE(order.size() == 100);
  CHECK(std::ranges::is_sorted(order));
}

TEST_CASE("WorkerPool runs as many pieces of work at once as it has threads") {
  WorkerPool pool("test", 3);
  // Each piece ends only when all three have begun.
  std::latch all_began(3);
  std::latch all_ended(3);
  for (int i = 0; i < 3; ++i) {
    pool.Post([&] {
      all_began.arrive_and_wait();
      all_ended.count_down();
    });
  }
  all_ended.wait();
  CHECK(all_ended.try_wait());
}

TEST_CASE("WorkerPool runs what is queued, and what that posts, before it ends") {
  std::atomic<int> runs{0};
  WorkerPool pool("test", 2);
  for (int i = 0; i < 50; ++i) {
    pool.Post([&] {
      ++runs;
      pool.Post([&] { ++runs; });
    });
  }
  pool.Finish();
  CHECK(runs == 100);
}

TEST_CASE("WorkerPool takes work from many threads") {
  std::atomic<int> runs{0};
  {
    WorkerPool pool("test", 2);
    std::vector<std::jthread> posters;
    for (int i = 0; i < 8; ++i) {
      posters.emplace_back([&] {
        for (int j = 0; j < 1000; ++j) pool.Post([&] { ++runs; });
      });
    }
    posters.clear();
  }
  CHECK(runs == 8000);
}

}  // namespace
}  // namespace kvpool::server
