#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"

#include "core/ids.h"
#include "tests/simulation/fiber.h"
#include "tests/support/random.h"

namespace kvpool::simulation {

class Process;

// Time, and what is to happen: events, of which the earliest runs next. One that is a process's
// own waits while the process is stopped.
class Scheduler {
 public:
  using Work = absl::AnyInvocable<void()>;

  Scheduler() = default;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  TimePoint now() const { return now_; }
  // Events that did something.
  uint64_t step_count() const { return step_count_; }
  // The running one did nothing.
  void CountNoStep() { --step_count_; }

  // `owner`, if any, outlives the scheduler.
  void After(Duration delay, Work work, Process* owner = nullptr);
  // Runs the earliest event, if it is due by `end`, and lets time pass until then. False: there is
  // none, and it is `end`.
  bool RunNext(TimePoint end);

  // Of when everything happened.
  uint64_t digest() const { return digest_; }
  // Forgets what was to happen.
  void Clear() { events_.clear(); }

  // Tells of what happens from now on, with the time, by lines.
  void StartTrace() { is_tracing_ = true; }
  bool is_tracing() const { return is_tracing_; }
  const std::string& trace() const { return trace_; }
  // Where it is to tell: `text()` is what.
  template <typename Text>
  void Note(const Text& text) {
    if (is_tracing_) AddNote(text());
  }

  // What was wrong first. Empty: nothing so far.
  const std::string& failure() const { return failure_; }
  void Fail(const std::string& what);

 private:
  struct Event {
    TimePoint time;
    uint64_t order = 0;
    Process* owner = nullptr;
    Work work;
  };
  void AddNote(const std::string& text);
  static bool IsLater(const Event& a, const Event& b);

  TimePoint now_{std::chrono::hours(1)};
  uint64_t next_order_ = 0;
  uint64_t step_count_ = 0;
  uint64_t digest_ = 0;
  bool is_tracing_ = false;
  std::string trace_;
  std::vector<Event> events_;  // A heap.
  std::string failure_;
};

// A fiber that waits. Woken once.
struct Wait {
  Fiber* fiber = nullptr;
  bool is_over = false;
};
using WaitPtr = std::shared_ptr<Wait>;

// A worker's process: its fibers, and whether they run. One that was killed is a ghost: its fibers
// go on until they return, in a time of their own in which no wait takes any, and nothing that they
// do reaches anybody.
class Process {
 public:
  Process(Scheduler& the_scheduler, uint64_t seed) : scheduler(the_scheduler), random(seed) {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  TimePoint now() const { return is_dead_ ? ghost_now_ : scheduler.now(); }
  bool is_dead() const { return is_dead_; }
  bool is_stopped() const { return is_stopped_; }
  // How often it was stopped.
  uint32_t stop_count() const { return stop_count_; }
  bool has_fibers() const;

  void Start(std::function<void()> run);
  void Stop();
  void Continue();
  void Kill();

  // Parks an event of a stopped process.
  void Park(Scheduler::Work work) { parked_.push_back(std::move(work)); }

  // Of the running fiber.
  WaitPtr BeginWait();
  void Await(const WaitPtr& wait);
  // From anywhere; has no effect on one that is over.
  void Wake(const WaitPtr& wait) { WakeAfter(wait, Jitter()); }
  void WakeAfter(const WaitPtr& wait, Duration delay);
  // At most that long; returns what is left of it. A ghost's takes no time.
  Duration AwaitFor(const WaitPtr& wait, Duration duration);

  Scheduler& scheduler;
  test::Random random;  // For what no action decides.

 private:
  // How long it takes until a fiber that may run does.
  Duration Jitter() { return std::chrono::microseconds(random.Below(50)); }

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<WaitPtr> timed_;
  std::vector<Scheduler::Work> parked_;
  bool is_dead_ = false;
  bool is_stopped_ = false;
  uint32_t stop_count_ = 0;
  TimePoint ghost_now_{};
};

}  // namespace kvpool::simulation
