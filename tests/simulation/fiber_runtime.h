#pragma once

#include "client/runtime.h"
#include "tests/simulation/scheduler.h"

namespace kvpool::simulation {

// The client library's threads and waits, as fibers of one process. Outlives what uses it.
class FiberRuntime final : public client::Runtime {
 public:
  explicit FiberRuntime(Process& process) : process_(process) {}

  std::unique_ptr<Thread> StartThread(std::function<void()> run) override;
  std::unique_ptr<Condition> MakeCondition() override;
  uint64_t Random() override { return process_.random.Next(); }

 private:
  Process& process_;
};

}  // namespace kvpool::simulation
