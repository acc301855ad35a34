#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "core/device/cuda/cuda_abi.h"
#include "tests/fakecuda/contexts.h"

namespace fakecuda {

// How often each call was made, and which of them are to fail (FAKECUDA_FAIL). Thread-safe.
class CallBook {
 public:
  // Counts a call; the result that it is to have, success where it is to do its work.
  Result Count(const std::string& call);
  // Writes a line to the log, if there is one.
  void Log(const std::string& call, Result result);

  uint64_t CountOf(const std::string& call) const;
  void Reset();

 private:
  mutable std::mutex mutex_;
  std::map<std::string, uint64_t> counts_;
};

CallBook& TheCallBook();

// Makes one call of the API: `body` is its work, unless it is to fail. What a context would never
// recover from is the fate of the current one, if there is one.
template <typename Body>
Result Enter(const char* call, Body body) {
  Result result = TheCallBook().Count(call);
  if (result == Result::kSuccess) {
    result = body();
  } else if (ContextState* context = CurrentContext(); context != nullptr) {
    context->Fail(result);
  }
  TheCallBook().Log(call, result);
  return result;
}

// The same for a call that needs a current context, which `body` is given, and a sound one.
template <typename Body>
Result EnterInContext(const char* call, Body body) {
  return Enter(call, [&]() -> Result {
    if (!IsInitialised()) return Result::kNotInitialized;
    ContextState* const context = CurrentContext();
    if (context == nullptr) return Result::kInvalidContext;
    if (context->result() != Result::kSuccess) return context->result();
    return body(*context);
  });
}

}  // namespace fakecuda
