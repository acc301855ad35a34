#pragma once

#include <cstdint>
#include <functional>
#include <random>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

#include "client/cancellation.h"
#include "client/options.h"
#include "core/clock.h"
#include "core/mutex.h"

namespace kvpool::client {

// Tries a call until it has an answer, as RetryPolicy says. Thread-safe.
class Retrier {
 public:
  // An unset `clock` is steady_clock; an unset `sleep` waits, but no longer than until the call
  // is cancelled. `seed` is what the pauses' random parts come from.
  Retrier(const RetryPolicy& policy, Clock clock, std::function<void(Duration)> sleep,
          uint64_t seed);

  // Runs `attempt`, each time with the time that it may take, until it returns what another
  // attempt would not change, `may_go_on` says no, or the policy's time is over; returns the
  // last attempt's answer. `wait` is what the daemon may take on top in good order.
  // Requires that a second attempt has no second effect.
  absl::Status Run(Duration wait, Cancellation& cancellation, absl::FunctionRef<bool()> may_go_on,
                   absl::FunctionRef<absl::Status(Duration timeout)> attempt);

  // The same with another policy: closing has its own.
  absl::Status Run(const RetryPolicy& policy, Duration wait, Cancellation& cancellation,
                   absl::FunctionRef<bool()> may_go_on,
                   absl::FunctionRef<absl::Status(Duration timeout)> attempt);

  // Waits for `backoff`, shortened by a random part of up to a half, or until cancelled.
  void Pause(Duration backoff, Cancellation& cancellation);

  const RetryPolicy& policy() const { return policy_; }
  TimePoint now() const { return clock_(); }

 private:
  Duration Jittered(Duration pause);
  void Wait(Duration pause, Cancellation& cancellation) const;

  const RetryPolicy policy_;
  const Clock clock_;
  const std::function<void(Duration)> sleep_;
  Mutex mutex_;
  std::minstd_rand random_ ABSL_GUARDED_BY(mutex_);
};

// Whether the answer to a call may have been lost, or the daemon was not there to give one.
bool IsWorthRetrying(const absl::Status& status);

}  // namespace kvpool::client
