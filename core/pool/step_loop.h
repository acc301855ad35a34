#pragma once

#include <atomic>
#include <cstdint>

namespace kvpool {

// StepLoop runs the steps of one asynchronous operation, one after the other. A step starts
// something whose end calls Continue; where that end comes before the step has returned, the loop
// goes round once more instead of nesting a step in a step: however much ends at once, the stack
// stays flat. What came before a Continue happens before the step that it asks for.
class StepLoop {
 public:
  // Runs `step` now, or after the one that is running. The operation must live until this returns.
  template <typename Step>
  void Continue(Step step) {
    if (wanted_.fetch_add(1, std::memory_order_acq_rel) != 0) return;
    do {
      step();
    } while (wanted_.fetch_sub(1, std::memory_order_acq_rel) != 1);
  }

 private:
  std::atomic<uint32_t> wanted_ = 0;  // Steps asked for and not over.
};

}  // namespace kvpool
