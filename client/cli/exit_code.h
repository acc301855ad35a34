#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kvpool::cli {

// What kvpoolctl exits with: part of its interface, listed by `kvpoolctl --help`.
enum class ExitCode : int {
  kOk = 0,
  kRefused = 1,      // The daemon (or a plan's own rules) said no; `health`: not serving.
  kUsage = 2,        // The command line or the spec's JSON cannot be read.
  kUnreachable = 3,  // No daemon at the socket, or no answer in time.
};

// An INVALID_ARGUMENT that ExitCodeFor tells from the daemon's own.
absl::Status UsageError(absl::string_view message);

// The exit code of a command that ended with `status`. UNAVAILABLE and DEADLINE_EXCEEDED are
// kUnreachable unless the daemon itself gave a reason (STARTING, DRAINING).
ExitCode ExitCodeFor(const absl::Status& status);

}  // namespace kvpool::cli
