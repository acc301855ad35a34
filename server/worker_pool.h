#pragma once

#include <condition_variable>
#include <deque>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"

#include "core/executor.h"
#include "core/mutex.h"

namespace kvpool::server {

// WorkerPool runs posted work on a fixed number of threads, first come first served. Work is
// short (a slice of a byte operation) and there is at most one piece for each call in progress,
// so the queue is bounded by what gRPC admits. Thread-safe.
class WorkerPool final : public Executor {
 public:
  // `name` shows in thread listings; at most 15 characters. Requires threads > 0.
  WorkerPool(const char* name, size_t threads);
  // As Finish.
  ~WorkerPool() override;

  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Runs what is queued, and what that posts, and ends the threads. Nobody else may post any more.
  void Finish();

  void Post(absl::AnyInvocable<void()> work) override;

 private:
  void Run();

  Mutex mutex_;
  std::condition_variable_any ready_;
  std::deque<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace kvpool::server
