#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "tests/fakecuda/contexts.h"

namespace fakecuda {

// What operations on every stream pass: it can be shut. Thread-safe.
class Gate {
 public:
  void Hold();
  void Release();
  // Waits until it is open, and then as long as FAKECUDA_DELAY_US says.
  void Pass();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_held_ = false;
};

Gate& TheGate();

// A stream: a thread that does what it is given in order, later. What an operation results in is
// its context's fate. Thread-safe.
class StreamState {
 public:
  using Operation = std::function<Result()>;

  explicit StreamState(ContextState& context);
  // Does what is left first, as the real one.
  ~StreamState();

  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;

  void Enqueue(Operation operation);
  // Waits for what was enqueued so far.
  Result Synchronize();
  bool IsIdle() const;

  ContextState& context() { return context_; }

 private:
  void Run();

  ContextState& context_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Operation> queue_;
  uint64_t enqueued_ = 0;
  uint64_t done_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

// An event: how many of its records have been reached. Thread-safe.
class EventState {
 public:
  void Record(StreamState& stream);
  // Waits for the last record so far; at once where there is none.
  Result Synchronize();
  // Whether it is reached: not ready where it is not.
  Result Query();

 private:
  // Shared with streams' queues, since an event may be destroyed before it is reached.
  struct Progress {
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t recorded = 0;
    uint64_t reached = 0;
    ContextState* context = nullptr;
  };
  const std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
};

// The objects of one kind that there are, by the pointers that callers know them by. Thread-safe.
template <typename State>
class ObjectTable {
 public:
  void Add(State* state) {
    const std::lock_guard lock(mutex_);
    objects_.insert(state);
  }
  // Null unless `handle` is one.
  State* Find(const void* handle) const {
    const std::lock_guard lock(mutex_);
    auto* state = static_cast<State*>(const_cast<void*>(handle));
    return objects_.contains(state) ? state : nullptr;
  }
  bool Remove(const State* state) {
    const std::lock_guard lock(mutex_);
    return objects_.erase(const_cast<State*>(state)) == 1;
  }
  std::set<State*> All() const {
    const std::lock_guard lock(mutex_);
    return objects_;
  }

 private:
  mutable std::mutex mutex_;
  std::set<State*> objects_;
};

ObjectTable<StreamState>& TheStreams();
ObjectTable<EventState>& TheEvents();

}  // namespace fakecuda
