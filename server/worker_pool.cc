#include "server/worker_pool.h"

#include <pthread.h>

#include <utility>

#include "core/check.h"

namespace kvpool::server {

WorkerPool::WorkerPool(const char* name, size_t threads) {
  KVPOOL_CHECK(threads > 0);
  threads_.reserve(threads);
  for (size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this, name] {
      pthread_setname_np(pthread_self(), name);
      Run();
    });
  }
}

WorkerPool::~WorkerPool() { Finish(); }

void WorkerPool::Finish() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_all();
  threads_.clear();
}

void WorkerPool::Post(absl::AnyInvocable<void()> work) {
  {
    const MutexLock lock(mutex_);
    queue_.push_back(std::move(work));
  }
  ready_.notify_one();
}

void WorkerPool::Run() {
  while (true) {
    absl::AnyInvocable<void()> work;
    {
      const MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) ready_.wait(mutex_);
      // What running work posts is run by the thread that runs it, if by no other: so an empty
      // queue is the end for this thread.
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace kvpool::server
