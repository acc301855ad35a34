#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "core/ids.h"
#include "core/mutex.h"

namespace kvpool::server {

// LogBudget is how many lines the log takes of what somebody does wrong over and over: a disk has
// an end, and a queue of lines drops those of others. Thread-safe.
class LogBudget {
 public:
  // So many at once, and over time one more each interval.
  static constexpr uint32_t kBurst = 100;
  static constexpr Duration kInterval = std::chrono::milliseconds(100);

  LogBudget() = default;
  LogBudget(const LogBudget&) = delete;
  LogBudget& operator=(const LogBudget&) = delete;

  // Takes a line: returns how many were left out before it, since the one taken last. Absent: this
  // one is left out, too.
  std::optional<uint64_t> Take(TimePoint now);

 private:
  Mutex mutex_;
  TimePoint full_at_ ABSL_GUARDED_BY(mutex_);  // When as many as can be may be taken at once.
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace kvpool::server
