#pragma once

#include "absl/status/statusor.h"

#include "client/cli/command.h"

namespace kvpool::cli {

// Follows what is findable in a pool, a line an event, until it is told to stop.
absl::StatusOr<ExitCode> RunWatch(const CommandContext& context);

}  // namespace kvpool::cli
