#include "server/rpc/alloc_canceller.h"

#include <utility>

namespace kvpool::server {

void AllocCanceller::Begin(std::shared_ptr<Pool> pool, PendingId pending) {
  if (pending == PendingId{}) return;
  {
    const MutexLock lock(mutex_);
    if (!is_cancelled_) {
      pool_ = std::move(pool);
      pending_ = pending;
      return;
    }
  }
  pool->Cancel(pending);
}

void AllocCanceller::Cancel() {
  std::shared_ptr<Pool> pool;
  PendingId pending{};
  {
    const MutexLock lock(mutex_);
    is_cancelled_ = true;
    pool = pool_;
    pending = pending_;
  }
  if (pool != nullptr) pool->Cancel(pending);
}

}  // namespace kvpool::server
