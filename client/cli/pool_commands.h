#pragma once

#include "client/cli/command.h"

// Commands about pools and their geometry.
namespace kvpool::cli {

absl::StatusOr<ExitCode> RunPools(const CommandContext& context);
absl::StatusOr<ExitCode> RunPlan(const CommandContext& context);
absl::StatusOr<ExitCode> RunCreatePool(const CommandContext& context);
absl::StatusOr<ExitCode> RunDeletePool(const CommandContext& context);

}  // namespace kvpool::cli
