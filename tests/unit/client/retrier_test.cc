#include "client/retrier.h"

#include <chrono>
#include <vector>

#include "core/error.h"
#include "tests/support/catch.h"

namespace kvpool::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A retrier whose time stands still but for its pauses and for what attempts take.
class Simulation {
 public:
  explicit Simulation(const RetryPolicy& policy)
      : retrier_(
            policy, [this] { return now_; },
            [this](Duration pause) {
              pauses_.push_back(pause);
              now_ += pause;
            },
            /*seed=*/1) {}

  // Runs a call whose attempts take `each` and end as `statuses` say, the last for ever.
  absl::Status Run(std::vector<absl::Status> statuses, Duration each = {}, Duration wait = {}) {
    Cancellation cancellation;
    return retrier_.Run(
        wait, cancellation, [this] { return may_go_on; },
        [&](Duration timeout) {
          timeouts_.push_back(timeout);
          now_ += std::min(each, timeout);
          const size_t index = std::min(timeouts_.size(), statuses.size()) - 1;
          return statuses[index];
        });
  }

  const std::vector<Duration>& timeouts() const { return timeouts_; }
  const std::vector<Duration>& pauses() const { return pauses_; }
  Duration elapsed() const { return now_ - TimePoint{}; }

  bool may_go_on = true;

 private:
  TimePoint now_{};
  std::vector<Duration> timeouts_;
  std::vector<Duration> pauses_;
  Retrier retrier_;
};

const absl::Status kUnavailable = absl::UnavailableError("gone");
const absl::Status kTooLate = absl::DeadlineExceededError("late");

TEST_CASE("A call is tried again after UNAVAILABLE and DEADLINE_EXCEEDED until it is answered") {
  Simulation simulation({});
  CHECK(simulation.Run({kUnavailable, kTooLate, absl::OkStatus()}).ok());
  CHECK(simulation.timeouts().size() == 3);
}

TEST_CASE("A call is not tried again after any other error") {
  for (const absl::StatusCode code :
       {absl::StatusCode::kCancelled, absl::StatusCode::kUnknown, absl::StatusCode::kNotFound,
        absl::StatusCode::kInvalidArgument, absl::StatusCode::kResourceExhausted,
        absl::StatusCode::kFailedPrecondition, absl::StatusCode::kAborted,
        absl::StatusCode::kInternal, absl::StatusCode::kUnimplemented}) {
    Simulation simulation({});
    CHECK(simulation.Run({absl::Status(code, "no")}).code() == code);
    CHECK(simulation.timeouts().size() == 1);
  }
}

TEST_CASE("A call to a daemon that drains is not tried again, to one that starts it is") {
  Simulation draining({});
  const absl::Status refused =
      MakeError(absl::StatusCode::kUnavailable, {.reason = Reason::kDraining}, "draining");
  CHECK(draining.Run({refused}) == refused);
  CHECK(draining.timeouts().size() == 1);

  Simulation starting({});
  CHECK(starting
            .Run({MakeError(absl::StatusCode::kUnavailable, {.reason = Reason::kStarting}, "soon"),
                  absl::OkStatus()})
            .ok());
}

TEST_CASE("Pauses double up to the longest, each less at most a half of it") {
  Simulation simulation({.initial_backoff = milliseconds(20), .max_backoff = milliseconds(50)});
  CHECK(simulation.Run({kUnavailable, kUnavailable, kUnavailable, kUnavailable, absl::OkStatus()})
            .ok());
  REQUIRE(simulation.pauses().size() == 4);
  const std::vector<Duration> longest = {milliseconds(20), milliseconds(40), milliseconds(50),
                                         milliseconds(50)};
  for (size_t i = 0; i < longest.size(); ++i) {
    CAPTURE(i);
    CHECK(simulation.pauses()[i] <= longest[i]);
    CHECK(simulation.pauses()[i] >= longest[i] / 2);
  }
}

TEST_CASE("A call ends with its last answer when the time for all attempts is over") {
  Simulation simulation({.attempt_timeout = seconds(5), .total_timeout = seconds(15)});
  CHECK(simulation.Run({kTooLate}, /*each=*/seconds(9)) == kTooLate);
  CHECK(simulation.elapsed() <= seconds(15));
  CHECK(simulation.elapsed() > seconds(14));
  REQUIRE(simulation.timeouts().size() == 3);
  CHECK(simulation.timeouts()[0] == seconds(5));
  // The last gets what is left, pauses taken off.
  CHECK(simulation.timeouts()[2] < seconds(5));
}

TEST_CASE("A call that waits for room has its wait on top of each deadline") {
  Simulation simulation({.attempt_timeout = seconds(5), .total_timeout = seconds(15)});
  CHECK(simulation.Run({kTooLate}, /*each=*/seconds(100), /*wait=*/seconds(30)) == kTooLate);
  CHECK(simulation.timeouts().front() == seconds(35));
  CHECK(simulation.elapsed() > seconds(44));
  CHECK(simulation.elapsed() <= seconds(45));
}

TEST_CASE("A call whose session has ended is not tried again") {
  Simulation simulation({});
  simulation.may_go_on = false;
  CHECK(simulation.Run({kUnavailable, absl::OkStatus()}) == kUnavailable);
  CHECK(simulation.pauses().empty());
}

TEST_CASE("A pause ends when the call is cancelled") {
  Retrier retrier({.total_timeout = std::chrono::hours(2),
                   .initial_backoff = std::chrono::hours(1),
                   .max_backoff = std::chrono::hours(1)},
                  nullptr, nullptr, /*seed=*/1);
  Cancellation cancellation;
  CHECK(retrier.Run(
            Duration{}, cancellation, [&] { return !cancellation.is_cancelled(); },
            [&](Duration /*timeout*/) {
              cancellation.Cancel();
              return kUnavailable;
            }) == kUnavailable);
}

}  // namespace
}  // namespace kvpool::client
