#pragma once

#include "absl/functional/any_invocable.h"

namespace kvpool {

// Runs work elsewhere. What takes longer than some 50 us (filling, copying, hashing) is posted
// here instead of being run on a thread that answers calls.
class Executor {
 public:
  virtual ~Executor() = default;

  // Runs `work` once, at some time, on some thread; maybe before this returns. Thread-safe.
  virtual void Post(absl::AnyInvocable<void()> work) = 0;
};

// Runs work at once, in the caller's thread. For tools and tests.
class InlineExecutor final : public Executor {
 public:
  void Post(absl::AnyInvocable<void()> work) override { work(); }
};

}  // namespace kvpool
