#include "client/cancellation.h"

#include <atomic>
#include <thread>

#include "tests/support/catch.h"

namespace kvpool::client {
namespace {

TEST_CASE("A cancellation runs what the open scopes gave it, once") {
  Cancellation cancellation;
  int first = 0;
  int second = 0;
  int ended = 0;
  {
    const Cancellation::Scope scope(cancellation, [&ended] { ++ended; });
  }
  const Cancellation::Scope a(cancellation, [&first] { ++first; });
  const Cancellation::Scope b(cancellation, [&second] { ++second; });
  CHECK_FALSE(cancellation.is_cancelled());

  cancellation.Cancel();
  cancellation.Cancel();
  CHECK(cancellation.is_cancelled());
  CHECK(first == 1);
  CHECK(second == 1);
  CHECK(ended == 0);
}

TEST_CASE("A scope of what is cancelled already is cancelled at once") {
  Cancellation cancellation;
  cancellation.Cancel();
  int count = 0;
  const Cancellation::Scope scope(cancellation, [&count] { ++count; });
  CHECK(count == 1);
}

TEST_CASE("Cancelling ends a wait") {
  Cancellation cancellation;
  std::atomic<bool> is_over = false;
  std::jthread waiter([&] {
    cancellation.WaitFor(std::chrono::hours(1));
    is_over = true;
  });
  cancellation.Cancel();
  waiter.join();
  CHECK(is_over);
}

TEST_CASE("A wait that nobody cancels ends by itself") {
  Cancellation cancellation;
  cancellation.WaitFor(std::chrono::milliseconds(1));
  CHECK_FALSE(cancellation.is_cancelled());
}

}  // namespace
}  // namespace kvpool::client
