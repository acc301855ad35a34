#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/action.h"
#include "tests/simulation/daemon.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/worker.h"

namespace kvpool::simulation {

// What a seed decides before anything happens: the pool, the weather, and who does what.
struct Plan {
  uint64_t seed = 0;
  DaemonOptions daemon;
  Weather weather;
  uint32_t worker_count = 0;
  std::vector<Action> actions;
};

Plan MakePlan(uint64_t seed);

struct Outcome {
  std::string failure;  // Empty: nothing was wrong.
  uint64_t steps = 0;
  uint64_t digest = 0;  // Of what happened: the same for the same plan.
  std::string trace;    // Where it was asked for: what happened, a line each.
};

// Runs a plan to its end: then faults stop, and all must come to rest.
Outcome RunPlan(const Plan& plan, bool is_traced = false);

}  // namespace kvpool::simulation
