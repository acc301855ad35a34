#pragma once

#include <cstddef>
#include <deque>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"

#include "core/executor.h"
#include "core/ids.h"
#include "core/mutex.h"

namespace kvpool::server {

// FairQueue runs the work of many processes on an executor that they share, a piece of each in
// turn, each one's in order: who posts a thousand pieces delays another by one of them.
// At most `width` pieces are with the executor, so that what else it runs is not behind them all.
// Thread-safe.
class FairQueue {
 public:
  // `executor` must have run all that was posted when this is destroyed. Requires width > 0.
  FairQueue(Executor& executor, size_t width);

  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  void Post(ProcessId owner, absl::AnyInvocable<void()> work);

 private:
  using Work = absl::AnyInvocable<void()>;

  // Runs the first piece of the one whose turn it is, and comes again where there is more.
  void RunNext();
  Work TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Executor& executor_;
  const size_t width_;

  Mutex mutex_;
  // What each has waiting; those that have nothing are not there.
  absl::flat_hash_map<ProcessId, std::deque<Work>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::deque<ProcessId> turns_ ABSL_GUARDED_BY(mutex_);  // Those that are, in order.
  size_t posted_ ABSL_GUARDED_BY(mutex_) = 0;            // With the executor.
};

}  // namespace kvpool::server
