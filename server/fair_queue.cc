#include "server/fair_queue.h"

#include <utility>

#include "core/check.h"

namespace kvpool::server {

FairQueue::FairQueue(Executor& executor, size_t width) : executor_(executor), width_(width) {
  KVPOOL_CHECK(width > 0);
}

void FairQueue::Post(ProcessId owner, Work work) {
  {
    const MutexLock lock(mutex_);
    std::deque<Work>& queue = waiting_[owner];
    if (queue.empty()) turns_.push_back(owner);
    queue.push_back(std::move(work));
    if (posted_ == width_) return;
    ++posted_;
  }
  executor_.Post([this] { RunNext(); });
}

void FairQueue::RunNext() {
  Work work;
  {
    const MutexLock lock(mutex_);
    if (turns_.empty()) {  // The others with the executor took it all.
      --posted_;
      return;
    }
    work = TakeNext();
  }
  work();
  {
    const MutexLock lock(mutex_);
    if (turns_.empty()) {
      --posted_;
      return;
    }
  }
  executor_.Post([this] { RunNext(); });
}

FairQueue::Work FairQueue::TakeNext() {
  const ProcessId owner = turns_.front();
  turns_.pop_front();
  const auto queue = waiting_.find(owner);
  Work work = std::move(queue->second.front());
  queue->second.pop_front();
  if (queue->second.empty()) {
    waiting_.erase(queue);
  } else {
    turns_.push_back(owner);
  }
  return work;
}

}  // namespace kvpool::server
