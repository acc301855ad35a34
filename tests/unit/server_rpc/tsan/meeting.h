#pragma once

#include <condition_variable>

#include "core/mutex.h"

namespace kvpool::test {

// What two handlers call at the same time. Both are in Visit before either counts itself, so
// nothing orders the counts but the mutex, where they use it.
class Meeting {
 public:
  // Without a lock the two visits are a data race.
  explicit Meeting(bool counts_under_lock) : counts_under_lock_(counts_under_lock) {}

  // Waits for the other visitor, then counts this one.
  void Visit();

  // For when the visits are over.
  int visits() const { return visits_; }

 private:
  void WaitForBoth();

  const bool counts_under_lock_;
  Mutex mutex_;
  std::condition_variable_any both_;
  int arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  int visits_ = 0;
};

}  // namespace kvpool::test
