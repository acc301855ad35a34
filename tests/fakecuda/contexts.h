#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "core/device/cuda/cuda_abi.h"

namespace fakecuda {

using kvpool::cuda::Result;
using kvpool::cuda::Uuid;

inline constexpr size_t kMaxDevices = 16;

// The primary context of a device in this process. Lives for ever, retained or not; once failed
// it has the same result for every call, until it is made anew. Thread-safe.
class ContextState {
 public:
  // What a context recovers from is no matter.
  void Fail(Result result);
  void Retain() { ++references_; }
  // False where it was not retained.
  bool Release();
  void Reset() { result_ = Result::kSuccess; }

  Result result() const { return result_; }
  bool is_retained() const { return references_ > 0; }
  // Of the device: which it is in this machine, whatever is visible.
  size_t index() const { return index_; }
  void set_index(size_t index) { index_ = index; }

 private:
  size_t index_ = 0;
  std::atomic<Result> result_{Result::kSuccess};
  std::atomic<int> references_{0};
};

// The context of the machine's device `index`.
ContextState& ContextOf(size_t index);

// This thread's stack of contexts.
ContextState* CurrentContext();
void PushContext(ContextState* context);
// False where there is none.
bool PopContext(ContextState** context);

// Sets this thread's capture mode, global at first, and returns the last.
int ExchangeCaptureMode(int mode);
// Whether FAKECUDA_CAPTURING keeps this thread from what a capture in another does not stand.
bool IsBarredByCapture();

bool IsInitialised();
void SetInitialised();

// The machine's devices that are visible here, in order.
std::vector<size_t> VisibleDevices();
// Of the device itself, or of the GPU that it is a part of.
Uuid UuidOf(size_t index, bool of_gpu);

}  // namespace fakecuda
