#pragma once

#include <condition_variable>
#include <functional>
#include <optional>
#include <thread>

#include "core/ids.h"
#include "core/mutex.h"

namespace kvpool::server {

// Ticker makes time pass for the pools: it calls them when something falls due.
//
// They say when that is, but calls change it without telling: so while there are sessions it looks
// every kBusyInterval, by which a deadline may be late, and else every kIdleInterval. Thread-safe.
class Ticker {
 public:
  // A pool's Advance takes a microsecond where nothing is due: 50 a second are nothing.
  static constexpr Duration kBusyInterval = std::chrono::milliseconds(20);
  static constexpr Duration kIdleInterval = std::chrono::seconds(1);

  Ticker() = default;
  ~Ticker() { Stop(); }

  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

  // Calls `advance` from now on, at the time it returned last, and `is_busy` after it. Called
  // once.
  void Start(std::function<std::optional<TimePoint>()> advance, std::function<bool()> is_busy);
  // Calls no more. In effect when it returns.
  void Stop();

  // Something changed: advances now. Before Start and after Stop it is nothing.
  void Wake();

 private:
  void Run();
  // False where it is to stop.
  bool WaitUntil(TimePoint time);

  std::function<std::optional<TimePoint>()> advance_;
  std::function<bool()> is_busy_;

  Mutex mutex_;
  std::condition_variable_any changed_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::jthread thread_;
};

}  // namespace kvpool::server
