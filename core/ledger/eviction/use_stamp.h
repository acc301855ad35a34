#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "core/ids.h"

namespace kvpool {

// When a block was used: a millisecond, and a number within it. Of two uses the later has the
// higher stamp, so that stamps order blocks without ties, while all uses of one millisecond have
// one age. 0 is older than every use.
enum class UseStamp : uint64_t {};

inline constexpr int kStampNumberBits = 20;

constexpr uint64_t ToNumber(UseStamp stamp) { return static_cast<uint64_t>(stamp); }

// The first stamp of a millisecond.
constexpr UseStamp FirstStampOf(int64_t time_ms) {
  return UseStamp{static_cast<uint64_t>(std::max<int64_t>(time_ms, 0)) << kStampNumberBits};
}
constexpr int64_t TimeMsOf(UseStamp stamp) {
  return static_cast<int64_t>(ToNumber(stamp) >> kStampNumberBits);
}

// UseClock stamps uses. It never goes back; a time below one seen before counts as that. After
// 2^20 uses in a millisecond it goes on to the next.
class UseClock {
 public:
  // Moves to `now`, where that is later.
  void Advance(TimePoint now) {
    const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch());
    now_ms_ = std::max<int64_t>(now_ms_, time.count());
  }
  UseStamp Stamp() {
    last_ = std::max(UseStamp{ToNumber(last_) + 1}, FirstStampOf(now_ms_));
    now_ms_ = TimeMsOf(last_);
    return last_;
  }

  int64_t now_ms() const { return now_ms_; }
  // The milliseconds since a use that it stamped.
  int64_t AgeMs(UseStamp stamp) const { return now_ms_ - TimeMsOf(stamp); }

 private:
  int64_t now_ms_ = 0;
  UseStamp last_{};
};

}  // namespace kvpool
