#pragma once

#ifdef KVPOOL_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace kvpool::server {

// The order of a reactor's steps, told to ThreadSanitizer. gRPC begins a step after the call that
// asked for it, often on another thread, but orders the two by means of its own that TSan does
// not see. Needed where a step uses, without a lock of its own, what an earlier one has made or
// been given. Nothing in other builds.
class StepOrder {
 public:
  // Before the call that asks gRPC for the next step.
  void End() { EndAt(this); }

  // First thing in the next step.
  void Begin() { BeginAt(this); }

  // The same for what moves from reactor to reactor: `place` stays, and stands for it.
  static void EndAt([[maybe_unused]] const void* place) {
#ifdef KVPOOL_TSAN
    __tsan_release(const_cast<void*>(place));
#endif
  }
  static void BeginAt([[maybe_unused]] const void* place) {
#ifdef KVPOOL_TSAN
    __tsan_acquire(const_cast<void*>(place));
#endif
  }
};

}  // namespace kvpool::server
