#include "server/ticker.h"

#include <atomic>
#include <chrono>

#include "tests/support/catch.h"
#include "tests/support/eventually.h"

namespace kvpool::server {
namespace {

TEST_CASE("Ticker advances at once when it is woken") {
  std::atomic<int> advances{0};
  Ticker ticker;
  ticker.Start(
      [&]() -> std::optional<TimePoint> {
        ++advances;
        return std::nullopt;
      },
      [] { return false; });
  REQUIRE(test::Eventually([&] { return advances >= 1; }));
  const int before = advances;
  ticker.Wake();
  CHECK(test::Eventually([&] { return advances > before; }));
}

TEST_CASE("Ticker goes on without a pause while more is due") {
  std::atomic<int> left{1000};
  const auto start = std::chrono::steady_clock::now();
  Ticker ticker;
  ticker.Start(
      [&]() -> std::optional<TimePoint> {
        if (left > 0) --left;
        if (left == 0) return std::nullopt;
        return std::chrono::steady_clock::now();
      },
      [] { return false; });
  REQUIRE(test::Eventually([&] { return left == 0; }));
  // A thousand turns at the idle interval would take as many seconds.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("Ticker looks again by itself while something is busy") {
  std::atomic<int> advances{0};
  Ticker ticker;
  ticker.Start(
      [&]() -> std::optional<TimePoint> {
        ++advances;
        return std::nullopt;
      },
      [] { return true; });
  CHECK(test::Eventually([&] { return advances >= 10; }));
}

TEST_CASE("Ticker calls nothing once it is stopped") {
  std::atomic<int> advances{0};
  Ticker ticker;
  ticker.Wake();
  ticker.Start(
      [&]() -> std::optional<TimePoint> {
        ++advances;
        return std::nullopt;
      },
      [] { return true; });
  ticker.Stop();
  const int after = advances;
  ticker.Wake();
  ticker.Stop();
  CHECK(advances == after);
}

}  // namespace
}  // namespace kvpool::server
