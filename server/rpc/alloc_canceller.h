#pragma once

#include <memory>

#include "core/mutex.h"
#include "core/pool.h"

namespace kvpool::server {

// Withdraws a call that waits for room. Its start and its cancellation may come in any order, on
// any threads. Thread-safe.
class AllocCanceller {
 public:
  // `pool` gave `pending` for the call, or 0 where nothing waits. Called once.
  void Begin(std::shared_ptr<Pool> pool, PendingId pending);

  // The call has got nothing then, unless it has been answered. May be called again.
  void Cancel();

 private:
  Mutex mutex_;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  // Set once the call waits.
  std::shared_ptr<Pool> pool_ ABSL_GUARDED_BY(mutex_);
  PendingId pending_ ABSL_GUARDED_BY(mutex_){};
};

}  // namespace kvpool::server
