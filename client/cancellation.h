#pragma once

#include <functional>
#include <list>
#include <memory>

#include "client/runtime.h"
#include "core/ids.h"
#include "core/mutex.h"

namespace kvpool::client {

// Ends calls under way from another thread, once and for all. Thread-safe.
class Cancellation {
 public:
  // While it lives, `cancel` runs once when the cancellation does; at once where it has already.
  // `cancel` must not block nor use the cancellation, and does not run any more once the scope is
  // destroyed.
  class Scope {
   public:
    Scope(Cancellation& cancellation, std::function<void()> cancel);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    Cancellation& cancellation_;
    std::list<std::function<void()>>::iterator entry_;
  };

  explicit Cancellation(Runtime& runtime = ProcessRuntime())
      : cancelled_changed_(runtime.MakeCondition()) {}

  void Cancel();
  bool is_cancelled() const;

  // Waits that long, or until cancelled.
  void WaitFor(Duration duration);

 private:
  mutable Mutex mutex_;
  const std::unique_ptr<Runtime::Condition> cancelled_changed_;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<std::function<void()>> callbacks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kvpool::client
