#include "core/pool/step_loop.h"

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace kvpool {
namespace {

TEST_CASE("StepLoop keeps the stack flat when every step ends at once") {
  StepLoop loop;
  int steps = 0;
  int depth = 0;
  int deepest = 0;
  std::function<void()> step = [&] {
    deepest = std::max(deepest, ++depth);
    if (++steps < 1'000'000) loop.Continue(step);
    --depth;
  };

  loop.Continue(step);

  CHECK(steps == 1'000'000);
  CHECK(deepest == 1);
}

TEST_CASE("StepLoop runs a step for each Continue, from whatever thread, never two at once") {
  StepLoop loop;
  // Not atomic: TSan sees where two steps are not ordered.
  int steps = 0;
  bool is_running = false;
  bool has_overlapped = false;
  const auto step = [&] {
    has_overlapped = has_overlapped || is_running;
    is_running = true;
    ++steps;
    is_running = false;
  };

  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int call = 0; call < 10'000; ++call) loop.Continue(step);
      });
    }
  }

  CHECK(steps == 40'000);
  CHECK_FALSE(has_overlapped);
}

}  // namespace
}  // namespace kvpool
