#include "tests/simulation/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "core/check.h"

namespace kvpool::simulation {

bool Scheduler::IsLater(const Event& a, const Event& b) {
  return a.time != b.time ? a.time > b.time : a.order > b.order;
}

void Scheduler::After(Duration delay, Work work, Process* owner) {
  events_.push_back({.time = now_ + std::max(delay, Duration::zero()),
                     .order = next_order_++,
                     .owner = owner,
                     .work = std::move(work)});
  std::ranges::push_heap(events_, IsLater);
}

bool Scheduler::RunNext(TimePoint end) {
  if (events_.empty() || events_.front().time > end) {
    now_ = std::max(now_, end);
    return false;
  }
  std::ranges::pop_heap(events_, IsLater);
  Event event = std::move(events_.back());
  events_.pop_back();
  now_ = std::max(now_, event.time);
  ++step_count_;
  digest_ = digest_ * 1099511628211 + static_cast<uint64_t>(now_.time_since_epoch().count());
  if (event.owner != nullptr && event.owner->is_stopped()) {
    event.owner->Park(std::move(event.work));
  } else {
    event.work();
  }
  return true;
}

void Scheduler::AddNote(const std::string& text) {
  const std::chrono::duration<double, std::milli> time = now_ - TimePoint(std::chrono::hours(1));
  absl::StrAppend(&trace_, absl::StrFormat("%12.3f ms  ", time.count()), text, "\n");
}

void Scheduler::Fail(const std::string& what) {
  if (failure_.empty()) failure_ = what;
}

bool Process::has_fibers() const {
  return std::ranges::any_of(fibers_, [](const auto& fiber) { return !fiber->is_done(); });
}

void Process::Start(std::function<void()> run) {
  std::erase_if(fibers_, [](const auto& fiber) { return fiber->is_done(); });
  fibers_.push_back(std::make_unique<Fiber>(std::move(run)));
  scheduler.After(
      Jitter(), [fiber = fibers_.back().get()] { fiber->Resume(); }, this);
}

void Process::Stop() {
  if (is_dead_ || std::exchange(is_stopped_, true)) return;
  ++stop_count_;
}

void Process::Continue() {
  if (!std::exchange(is_stopped_, false)) return;
  for (Scheduler::Work& work : std::exchange(parked_, {})) {
    scheduler.After(Duration::zero(), std::move(work), this);
  }
}

void Process::Kill() {
  if (is_dead_) return;
  ghost_now_ = scheduler.now();
  is_dead_ = true;
  Continue();
  for (const WaitPtr& wait : std::exchange(timed_, {})) WakeAfter(wait, Duration::zero());
}

WaitPtr Process::BeginWait() {
  KVPOOL_CHECK(Fiber::Running() != nullptr);
  return std::make_shared<Wait>(Wait{.fiber = Fiber::Running()});
}

void Process::Await(const WaitPtr& wait) {
  KVPOOL_CHECK(wait->fiber == Fiber::Running());
  Fiber::Yield();
  KVPOOL_CHECK(wait->is_over);
}

void Process::WakeAfter(const WaitPtr& wait, Duration delay) {
  scheduler.After(
      delay,
      [this, wait] {
        if (std::exchange(wait->is_over, true)) {
          scheduler.CountNoStep();
        } else {
          wait->fiber->Resume();
        }
      },
      this);
}

Duration Process::AwaitFor(const WaitPtr& wait, Duration duration) {
  if (is_dead_) {
    ghost_now_ += std::max(duration, Duration::zero());
    wait->is_over = true;
    return Duration::zero();
  }
  const TimePoint end = now() + duration;
  std::erase_if(timed_, [](const WaitPtr& timed) { return timed->is_over; });
  timed_.push_back(wait);
  WakeAfter(wait, duration);
  Await(wait);
  // Killed in the meantime: what was left of it takes no time.
  if (is_dead_) {
    ghost_now_ = std::max(ghost_now_, end);
    return Duration::zero();
  }
  return end - now();
}

}  // namespace kvpool::simulation
