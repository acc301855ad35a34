#pragma once

#include <string>

#include "client/cli/command.h"

namespace kvpool::cli {

// What `kvpoolctl --help` prints.
std::string OverviewHelp();

// What `kvpoolctl COMMAND --help` prints.
std::string CommandHelp(const Command& command);

}  // namespace kvpool::cli
