#include "server/ticker.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace kvpool::server {

void Ticker::Start(std::function<std::optional<TimePoint>()> advance,
                   std::function<bool()> is_busy) {
  advance_ = std::move(advance);
  is_busy_ = std::move(is_busy);
  thread_ = std::jthread([this] {
    pthread_setname_np(pthread_self(), "kv-ticker");
    Run();
  });
}

void Ticker::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Ticker::Wake() {
  {
    const MutexLock lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void Ticker::Run() {
  while (true) {
    const std::optional<TimePoint> due = advance_();
    const TimePoint now = std::chrono::steady_clock::now();
    const TimePoint latest = now + (is_busy_() ? kBusyInterval : kIdleInterval);
    if (!WaitUntil(std::min(due.value_or(latest), latest))) return;
    // More is to be reclaimed at once: calls that wait for the pool's mutex go first.
    if (due.has_value() && *due <= now) std::this_thread::yield();
  }
}

bool Ticker::WaitUntil(TimePoint time) {
  const MutexLock lock(mutex_);
  while (!stopping_ && !woken_) {
    if (changed_.wait_until(mutex_, time) == std::cv_status::timeout) break;
  }
  woken_ = false;
  return !stopping_;
}

}  // namespace kvpool::server
