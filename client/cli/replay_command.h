#pragma once

#include "absl/status/statusor.h"

#include "client/cli/command.h"

namespace kvpool::cli {

// The command about traces of requests.
absl::StatusOr<ExitCode> RunReplay(const CommandContext& context);

}  // namespace kvpool::cli
