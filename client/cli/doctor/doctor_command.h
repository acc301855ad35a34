#pragma once

#include "client/cli/command.h"

namespace kvpool::cli {

// `kvpoolctl doctor`. Command says what it may return; what a check finds is no error.
absl::StatusOr<ExitCode> RunDoctor(const CommandContext& context);

}  // namespace kvpool::cli
