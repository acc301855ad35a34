#pragma once

#include <cstddef>
#include <ostream>
#include <span>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "client/cli/exit_code.h"
#include "client/cli/options.h"

namespace kvpool::cli {

class Connection;

// What a command works with. Borrowed for the call.
struct CommandContext {
  std::span<const std::string> arguments;  // As many as the command takes.
  const Options& options;
  const Environment& environment;
  Connection* connection = nullptr;  // Null for a command that needs none made for it.
  absl::Time now;
  std::ostream& out;
  std::stop_token stop{};  // Of a command that `is_endless`.
};

// A command of kvpoolctl. It writes its answer only when it has all of it, unless it is endless,
// and returns the exit code, or what went wrong.
struct Command {
  absl::string_view name;
  absl::string_view arguments;  // As usage shows them: "POOL ID".
  size_t min_arguments = 0;
  size_t max_arguments = 0;
  bool needs_daemon = false;
  absl::Duration timeout;                      // Where --timeout is not given.
  std::span<const absl::string_view> options;  // Those of its own.
  absl::string_view summary;                   // One line.
  absl::string_view help;                      // The rest of the manual.
  absl::StatusOr<ExitCode> (*run)(const CommandContext& context) = nullptr;
  bool is_endless = false;  // It goes on until SIGINT or SIGTERM, which is its success.
  absl::string_view needed_options = {};  // As usage shows them; empty: it does without any.
};

// Every command, in the order of the help.
std::span<const Command> Commands();

}  // namespace kvpool::cli
