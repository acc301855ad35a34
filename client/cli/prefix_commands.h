#pragma once

#include "absl/status/statusor.h"

#include "client/cli/command.h"

namespace kvpool::cli {

// The commands about the prefix cache.
absl::StatusOr<ExitCode> RunReset(const CommandContext& context);
absl::StatusOr<ExitCode> RunPrefix(const CommandContext& context);

}  // namespace kvpool::cli
