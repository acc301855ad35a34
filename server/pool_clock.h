#pragma once

#include "core/ids.h"

namespace kvpool::server {

// PoolClock is the time that pools live by: steady_clock or, where tests replay in minutes what
// took hours, a clock that runs some times as fast. Thread-safe.
class PoolClock {
 public:
  static constexpr double kMaxRate = 100'000;

  // It runs `rate` times as fast as steady_clock from now on. Requires 1 to kMaxRate.
  explicit PoolClock(double rate);

  TimePoint Now() const;
  // When, by steady_clock, it will be `time` here, or was. Exactly `time` at rate 1.
  TimePoint ToSteady(TimePoint time) const;

 private:
  const double rate_;
  const TimePoint begin_;  // The same on both.
};

}  // namespace kvpool::server
