#include "client/cancellation.h"

#include <utility>

namespace kvpool::client {

Cancellation::Scope::Scope(Cancellation& cancellation, std::function<void()> cancel)
    : cancellation_(cancellation) {
  const MutexLock lock(cancellation_.mutex_);
  if (cancellation_.is_cancelled_) cancel();
  entry_ = cancellation_.callbacks_.insert(cancellation_.callbacks_.end(), std::move(cancel));
}

Cancellation::Scope::~Scope() {
  const MutexLock lock(cancellation_.mutex_);
  cancellation_.callbacks_.erase(entry_);
}

void Cancellation::Cancel() {
  const MutexLock lock(mutex_);
  if (is_cancelled_) return;
  is_cancelled_ = true;
  // Under the mutex, so that no callback runs on after its scope's end.
  for (const auto& callback : callbacks_) callback();
  cancelled_changed_->NotifyAll();
}

bool Cancellation::is_cancelled() const {
  const MutexLock lock(mutex_);
  return is_cancelled_;
}

void Cancellation::WaitFor(Duration duration) {
  const MutexLock lock(mutex_);
  while (!is_cancelled_ && duration > Duration::zero()) {
    duration = cancelled_changed_->WaitFor(mutex_, duration);
  }
}

}  // namespace kvpool::client
