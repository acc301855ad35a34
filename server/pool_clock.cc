#include "server/pool_clock.h"

#include <chrono>

#include "core/check.h"

namespace kvpool::server {
namespace {

using std::chrono::steady_clock;

TimePoint SteadyNow() { return steady_clock::now(); }

Duration Scale(Duration duration, double factor) {
  return std::chrono::duration_cast<Duration>(duration * factor);
}

}  // namespace

PoolClock::PoolClock(double rate) : rate_(rate), begin_(SteadyNow()) {
  KVPOOL_CHECK(rate >= 1 && rate <= kMaxRate);
}

TimePoint PoolClock::Now() const {
  const TimePoint now = SteadyNow();
  return rate_ == 1 ? now : begin_ + Scale(now - begin_, rate_);
}

TimePoint PoolClock::ToSteady(TimePoint time) const {
  return rate_ == 1 ? time : begin_ + Scale(time - begin_, 1 / rate_);
}

}  // namespace kvpool::server
