#include "tests/simulation/fiber_runtime.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace kvpool::simulation {
namespace {

class FiberThread final : public client::Runtime::Thread {
 public:
  FiberThread(Process& process, std::function<void()> run)
      : process_(process), state_(std::make_shared<State>()) {
    process.Start([&process, state = state_, run = std::move(run)] {
      run();
      state->is_done = true;
      for (const WaitPtr& wait : std::exchange(state->joining, {})) process.Wake(wait);
    });
  }

  void Join() override {
    while (!state_->is_done) {
      const WaitPtr wait = process_.BeginWait();
      state_->joining.push_back(wait);
      process_.Await(wait);
    }
  }

 private:
  struct State {
    bool is_done = false;
    std::vector<WaitPtr> joining;
  };

  Process& process_;
  const std::shared_ptr<State> state_;
};

class FiberCondition final : public client::Runtime::Condition {
 public:
  explicit FiberCondition(Process& process) : process_(process) {}

  void Wait(Mutex& mutex) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const WaitPtr wait = Begin();
    mutex.Unlock();
    process_.Await(wait);
    mutex.Lock();
  }

  Duration WaitFor(Mutex& mutex, Duration duration) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const WaitPtr wait = Begin();
    mutex.Unlock();
    const Duration left = process_.AwaitFor(wait, duration);
    mutex.Lock();
    return left;
  }

  void NotifyAll() override {
    for (const WaitPtr& wait : std::exchange(waiting_, {})) {
      if (!wait->is_over) process_.Wake(wait);
    }
  }

 private:
  WaitPtr Begin() {
    std::erase_if(waiting_, [](const WaitPtr& wait) { return wait->is_over; });
    waiting_.push_back(process_.BeginWait());
    return waiting_.back();
  }

  Process& process_;
  std::vector<WaitPtr> waiting_;
};

}  // namespace

std::unique_ptr<client::Runtime::Thread> FiberRuntime::StartThread(std::function<void()> run) {
  return std::make_unique<FiberThread>(process_, std::move(run));
}

std::unique_ptr<client::Runtime::Condition> FiberRuntime::MakeCondition() {
  return std::make_unique<FiberCondition>(process_);
}

}  // namespace kvpool::simulation
