#pragma once

#include <ostream>
#include <span>
#include <string>

#include "absl/time/time.h"

#include "client/cli/exit_code.h"
#include "client/cli/options.h"

namespace kvpool::cli {

// kvpoolctl as a function: reads the command line (without the program's name), does what it
// says, writes answers and help to `out` and what went wrong to `errors`.
ExitCode RunCli(std::span<const std::string> arguments, const Environment& environment,
                absl::Time now, std::ostream& out, std::ostream& errors);

}  // namespace kvpool::cli
