#include "tests/simulation/shrink.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kvpool::simulation {

Plan Shrink(Plan plan) {
  size_t run = std::max<size_t>(plan.actions.size() / 2, 1);
  bool has_shrunk = false;
  while (true) {
    for (size_t first = 0; first < plan.actions.size();) {
      Plan shorter = plan;
      const auto begin = shorter.actions.begin() + static_cast<std::ptrdiff_t>(first);
      const size_t count = std::min(run, shorter.actions.size() - first);
      shorter.actions.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
      if (RunPlan(shorter).failure.empty()) {
        first += count;
      } else {
        plan = std::move(shorter);
        has_shrunk = true;
      }
    }
    // Until no single one can go.
    if (run == 1 && !has_shrunk) return plan;
    if (run == 1) has_shrunk = false;
    run = std::max<size_t>(run / 2, 1);
  }
}

std::string ToText(const Plan& plan) {
  std::string text = absl::StrCat(
      plan.worker_count, " workers, ", plan.daemon.num_blocks, " blocks, at most ",
      plan.daemon.max_blocks_per_tenant, " a tenant, ", plan.daemon.eviction_policy, "; one in ",
      plan.weather.lost_requests, " requests and ", plan.weather.lost_answers, " answers lost, ",
      plan.weather.doubled, " doubled, ", plan.weather.slow, " slow\n");
  for (const Action& action : plan.actions) absl::StrAppend(&text, action.ToString(), "\n");
  return text;
}

}  // namespace kvpool::simulation
