#pragma once

#include "client/cli/command.h"

// Commands about blocks and what is in them.
namespace kvpool::cli {

absl::StatusOr<ExitCode> RunBlock(const CommandContext& context);
absl::StatusOr<ExitCode> RunBlocks(const CommandContext& context);
absl::StatusOr<ExitCode> RunChecksum(const CommandContext& context);

}  // namespace kvpool::cli
