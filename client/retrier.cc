#include "client/retrier.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/error.h"

namespace kvpool::client {

bool IsWorthRetrying(const absl::Status& status) {
  if (absl::IsDeadlineExceeded(status)) return true;
  // A daemon that drains does not come back as the same one.
  return absl::IsUnavailable(status) && GetErrorDetail(status).reason != Reason::kDraining;
}

Retrier::Retrier(const RetryPolicy& policy, Clock clock, std::function<void(Duration)> sleep,
                 uint64_t seed)
    : policy_(policy),
      clock_(clock ? std::move(clock) : Clock([] { return std::chrono::steady_clock::now(); })),
      sleep_(std::move(sleep)),
      random_(static_cast<std::minstd_rand::result_type>(seed)) {}

absl::Status Retrier::Run(Duration wait, Cancellation& cancellation,
                          absl::FunctionRef<bool()> may_go_on,
                          absl::FunctionRef<absl::Status(Duration timeout)> attempt) {
  return Run(policy_, wait, cancellation, may_go_on, attempt);
}

absl::Status Retrier::Run(const RetryPolicy& policy, Duration wait, Cancellation& cancellation,
                          absl::FunctionRef<bool()> may_go_on,
                          absl::FunctionRef<absl::Status(Duration timeout)> attempt) {
  const TimePoint end = clock_() + policy.total_timeout + wait;
  Duration backoff = policy.initial_backoff;
  while (true) {
    absl::Status status = attempt(std::min(policy.attempt_timeout + wait, end - clock_()));
    if (!IsWorthRetrying(status)) return status;
    const Duration pause = Jittered(backoff);
    backoff = std::min(2 * backoff, policy.max_backoff);
    if (clock_() + pause >= end || !may_go_on()) return status;
    Wait(pause, cancellation);
    if (!may_go_on()) return status;
  }
}

void Retrier::Pause(Duration backoff, Cancellation& cancellation) {
  Wait(Jittered(backoff), cancellation);
}

void Retrier::Wait(Duration pause, Cancellation& cancellation) const {
  if (sleep_) {
    sleep_(pause);
  } else {
    cancellation.WaitFor(pause);
  }
}

Duration Retrier::Jittered(Duration pause) {
  const MutexLock lock(mutex_);
  std::uniform_int_distribution<int64_t> part(0, pause.count() / 2);
  return pause - Duration(part(random_));
}

}  // namespace kvpool::client
