#pragma once

#include <memory>
#include <utility>

#include "absl/status/status.h"

#include "core/check.h"
#include "core/device/device.h"

namespace kvpool::test {

// What became of one asynchronous operation. Not thread-safe: for operations that end in the
// thread that looks.
class Outcome {
 public:
  // What the operation is to be given. It ends the test program where it is called twice.
  Completion Take() {
    return [state = state_](absl::Status status) {
      KVPOOL_CHECK(!state->is_done);
      *state = {.is_done = true, .status = std::move(status)};
    };
  }

  bool is_done() const { return state_->is_done; }
  // UNKNOWN until it is done.
  const absl::Status& status() const { return state_->status; }
  bool ok() const { return state_->status.ok(); }

 private:
  struct State {
    bool is_done = false;
    absl::Status status = absl::UnknownError("not done");
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace kvpool::test
