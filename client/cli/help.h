#pragma once

#include <string>

#include "client/cli/command.h"

namespace kvpool::cli {

// What `kvpoolctl --help` prints.
std::string OverviewHelp();

// "usage: kvpoolctl COMMAND ARGUMENTS --needed=OPTION [OPTIONS]".
std::string UsageLine(const Command& command);

// What `kvpoolctl COMMAND --help` prints.
std::string CommandHelp(const Command& command);

}  // namespace kvpool::cli
