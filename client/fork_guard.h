#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"

namespace kvpool::client {

// Tells whether this process is a forked child of the one in which the guard was made.
//
// In such a child the other threads are gone, so a mutex may be held for ever and gRPC does not
// work: whoever finds itself there touches nothing. Costs one relaxed load. Thread-safe.
class ForkGuard {
 public:
  ForkGuard();

  bool is_in_child() const;
  // FAILED_PRECONDITION in a child.
  absl::Status Check() const;

 private:
  uint64_t fork_count_;
};

// A shared object that a forked child never destroys: its destructor would join threads that are
// not there and close connections that are the parent's.
template <typename T, typename... Args>
std::shared_ptr<T> MakeForkSafe(Args&&... args) {
  return std::shared_ptr<T>(new T(std::forward<Args>(args)...), [guard = ForkGuard()](T* object) {
    if (!guard.is_in_child()) delete object;
  });
}

}  // namespace kvpool::client
