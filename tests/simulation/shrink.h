#pragma once

#include "tests/simulation/world.h"

namespace kvpool::simulation {

// A plan with as few of `plan`'s actions as it finds that still goes wrong, in the same way or
// another: leaves out ever smaller runs of them. Requires that `plan` goes wrong.
Plan Shrink(Plan plan);

// The plan's actions, a line each.
std::string ToText(const Plan& plan);

}  // namespace kvpool::simulation
