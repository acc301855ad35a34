#include "client/event_releaser.h"

#include <utility>

namespace kvpool::client {

EventReleaser::EventReleaser(Await await, OnFailure on_failure, Runtime& runtime)
    : await_(std::move(await)),
      on_failure_(std::move(on_failure)),
      runtime_(runtime),
      changed_(runtime.MakeCondition()) {}

EventReleaser::~EventReleaser() {
  Stop();
  Join();
}

void EventReleaser::Add(Event event, std::vector<BlockLease> leases) {
  const MutexLock lock(mutex_);
  // In the session's time they end by its releaser, after it by nothing.
  if (stop_.stop_requested()) return;
  pending_.push_back({.event = std::move(event), .leases = std::move(leases)});
  if (thread_ == nullptr) {
    thread_ = runtime_.StartThread([this] { Run(); });
  }
  changed_->NotifyAll();
}

void EventReleaser::Stop() {
  {
    // So that no Add starts a thread after it.
    const MutexLock lock(mutex_);
    if (!stop_.request_stop()) return;
  }
  changed_->NotifyAll();
}

void EventReleaser::Join() {
  std::unique_ptr<Runtime::Thread> thread;
  {
    const MutexLock lock(mutex_);
    thread = std::move(thread_);
  }
  if (thread != nullptr) thread->Join();
  // Leases end without the mutex.
  std::deque<Entry> pending;
  std::vector<Entry> kept;
  const MutexLock lock(mutex_);
  pending.swap(pending_);
  kept.swap(kept_);
}

void EventReleaser::Run() {
  const std::stop_token stop = stop_.get_token();
  while (true) {
    Entry entry;
    {
      const MutexLock lock(mutex_);
      while (pending_.empty() && !stop.stop_requested()) changed_->Wait(mutex_);
      if (stop.stop_requested()) return;
      entry = std::move(pending_.front());
      pending_.pop_front();
    }
    const absl::Status status = await_(entry.event, stop);
    if (stop.stop_requested()) return;
    if (!status.ok()) Fail(std::move(entry), status);
  }
}

void EventReleaser::Fail(Entry entry, const absl::Status& status) {
  std::vector<BlockRef> refs;
  for (const BlockLease& lease : entry.leases) {
    if (!lease.is_empty()) refs.push_back(lease.ref());
  }
  {
    const MutexLock lock(mutex_);
    kept_.push_back(std::move(entry));
  }
  if (!refs.empty()) on_failure_(refs, status);
}

}  // namespace kvpool::client
