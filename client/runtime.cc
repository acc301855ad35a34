#include "client/runtime.h"

#include <chrono>
#include <condition_variable>
#include <random>
#include <thread>
#include <utility>

namespace kvpool::client {
namespace {

class ProcessThread final : public Runtime::Thread {
 public:
  explicit ProcessThread(std::function<void()> run) : thread_(std::move(run)) {}

  void Join() override { thread_.join(); }

 private:
  std::jthread thread_;
};

class ProcessCondition final : public Runtime::Condition {
 public:
  void Wait(Mutex& mutex) override { changed_.wait(mutex); }

  Duration WaitFor(Mutex& mutex, Duration duration) override {
    const TimePoint end = std::chrono::steady_clock::now() + duration;
    if (changed_.wait_until(mutex, end) == std::cv_status::timeout) return Duration::zero();
    return end - std::chrono::steady_clock::now();
  }

  void NotifyAll() override { changed_.notify_all(); }

 private:
  std::condition_variable_any changed_;
};

class ThisProcess final : public Runtime {
 public:
  std::unique_ptr<Thread> StartThread(std::function<void()> run) override {
    return std::make_unique<ProcessThread>(std::move(run));
  }
  std::unique_ptr<Condition> MakeCondition() override {
    return std::make_unique<ProcessCondition>();
  }
  uint64_t Random() override {
    std::random_device random;
    return (uint64_t{random()} << 32) | random();
  }
};

}  // namespace

Runtime& ProcessRuntime() {
  // Never destroyed: what ends last may still wait.
  static ThisProcess& process = *new ThisProcess;
  return process;
}

}  // namespace kvpool::client
