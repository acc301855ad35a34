#include "tests/unit/server_rpc/tsan/meeting.h"

namespace kvpool::test {

void Meeting::WaitForBoth() {
  const MutexLock lock(mutex_);
  ++arrived_;
  both_.notify_all();
  while (arrived_ < 2) both_.wait(mutex_);
}

void Meeting::Visit() {
  WaitForBoth();
  if (counts_under_lock_) {
    const MutexLock lock(mutex_);
    ++visits_;
  } else {
    ++visits_;
  }
}

}  // namespace kvpool::test
