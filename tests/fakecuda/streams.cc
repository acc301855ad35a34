#include "tests/fakecuda/streams.h"

#include <chrono>
#include <utility>

#include "tests/fakecuda/settings.h"

namespace fakecuda {

void Gate::Hold() {
  const std::lock_guard lock(mutex_);
  is_held_ = true;
}

void Gate::Release() {
  {
    const std::lock_guard lock(mutex_);
    is_held_ = false;
  }
  changed_.notify_all();
}

void Gate::Pass() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !is_held_; });
  }
  const uint64_t delay_us = TheSettings().GetNumber("FAKECUDA_DELAY_US", 0);
  if (delay_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
}

Gate& TheGate() {
  static auto& gate = *new Gate();
  return gate;
}

StreamState::StreamState(ContextState& context) : context_(context), thread_([this] { Run(); }) {}

StreamState::~StreamState() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StreamState::Enqueue(Operation operation) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(operation));
    ++enqueued_;
  }
  changed_.notify_all();
}

Result StreamState::Synchronize() {
  std::unique_lock lock(mutex_);
  const uint64_t wanted = enqueued_;
  changed_.wait(lock, [&] { return done_ >= wanted; });
  return context_.result();
}

bool StreamState::IsIdle() const {
  const std::lock_guard lock(mutex_);
  return done_ == enqueued_;
}

void StreamState::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const Operation operation = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    TheGate().Pass();
    // Nothing more happens in a context that has failed.
    if (context_.result() == Result::kSuccess) context_.Fail(operation());
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

void EventState::Record(StreamState& stream) {
  uint64_t number = 0;
  {
    const std::lock_guard lock(progress_->mutex);
    number = ++progress_->recorded;
    progress_->context = &stream.context();
  }
  stream.Enqueue([progress = progress_, number] {
    const std::lock_guard lock(progress->mutex);
    progress->reached = number;
    progress->changed.notify_all();
    return Result::kSuccess;
  });
}

Result EventState::Synchronize() {
  std::unique_lock lock(progress_->mutex);
  const uint64_t wanted = progress_->recorded;
  if (progress_->context == nullptr) return Result::kSuccess;
  ContextState& context = *progress_->context;
  // A failed context's streams reach no event: look at it now and then.
  while (progress_->reached < wanted && context.result() == Result::kSuccess) {
    progress_->changed.wait_for(lock, std::chrono::milliseconds(1));
  }
  return context.result();
}

Result EventState::Query() {
  const std::lock_guard lock(progress_->mutex);
  if (progress_->context == nullptr) return Result::kSuccess;
  const Result result = progress_->context->result();
  if (result != Result::kSuccess) return result;
  return progress_->reached < progress_->recorded ? Result::kNotReady : Result::kSuccess;
}

ObjectTable<StreamState>& TheStreams() {
  static auto& streams = *new ObjectTable<StreamState>();
  return streams;
}

ObjectTable<EventState>& TheEvents() {
  static auto& events = *new ObjectTable<EventState>();
  return events;
}

}  // namespace fakecuda
