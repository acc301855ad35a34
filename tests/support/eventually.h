#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace kvpool::test {

// Whether `condition` comes true within `limit`: for what another process does and no event
// tells. Looks again every millisecond; the limit is only how long a failure takes.
inline bool Eventually(const std::function<bool()>& condition,
                       std::chrono::seconds limit = std::chrono::seconds(30)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace kvpool::test
