#pragma once

#include "client/cli/command.h"

// Commands about the daemon as a whole. Command says what each may return.
namespace kvpool::cli {

absl::StatusOr<ExitCode> RunStatus(const CommandContext& context);
absl::StatusOr<ExitCode> RunHealth(const CommandContext& context);

}  // namespace kvpool::cli
