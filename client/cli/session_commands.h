#pragma once

#include "client/cli/command.h"

// Commands about sessions.
namespace kvpool::cli {

absl::StatusOr<ExitCode> RunSessions(const CommandContext& context);
absl::StatusOr<ExitCode> RunSession(const CommandContext& context);
absl::StatusOr<ExitCode> RunTerminate(const CommandContext& context);

}  // namespace kvpool::cli
