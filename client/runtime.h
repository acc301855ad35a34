#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"

#include "core/ids.h"
#include "core/mutex.h"

namespace kvpool::client {

// What the library runs on, waits by and takes chance from: this process's threads and its random
// device, or a simulation's, which then decides who runs when. Thread-safe. The library starts no
// thread, waits for nothing and draws no number but by one; a Mutex is held over no wait of
// another kind.
class Runtime {
 public:
  // Runs one function. Joined before it is destroyed.
  class Thread {
   public:
    virtual ~Thread() = default;
    // Waits until the function has returned. Called once.
    virtual void Join() = 0;
  };

  // What waits for a change of what one Mutex guards. It may return without any.
  class Condition {
   public:
    virtual ~Condition() = default;
    virtual void Wait(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;
    // At most that long. Returns what is left of it: zero or less once it is over.
    virtual Duration WaitFor(Mutex& mutex, Duration duration)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;
    virtual void NotifyAll() = 0;
  };

  virtual ~Runtime() = default;
  virtual std::unique_ptr<Thread> StartThread(std::function<void()> run) = 0;
  virtual std::unique_ptr<Condition> MakeCondition() = 0;
  virtual uint64_t Random() = 0;
};

// This process's own.
Runtime& ProcessRuntime();

}  // namespace kvpool::client
