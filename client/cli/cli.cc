#include "client/cli/cli.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/cli/command.h"
#include "client/cli/connection.h"
#include "client/cli/error_text.h"
#include "client/cli/help.h"
#include "client/cli/stop_signal.h"
#include "client/cli/text.h"
#include "core/nearest_name.h"
#include "core/status_macros.h"
#include "core/utf8.h"

namespace kvpool::cli {
namespace {

// `kvpoolctl help COMMAND` is `kvpoolctl COMMAND --help`.
constexpr absl::string_view kHelpWord = "help";

// Options that every command takes.
constexpr std::array<absl::string_view, 5> kSharedOptions = {"socket", "timeout", "json", "help",
                                                             "version"};

absl::StatusOr<const Command*> FindCommand(absl::string_view name) {
  const auto commands = Commands();
  const auto found = std::ranges::find(commands, name, &Command::name);
  if (found != commands.end()) return &*found;
  std::vector<absl::string_view> names = {kHelpWord};
  for (const Command& command : commands) names.push_back(command.name);
  const absl::string_view nearest = NearestName(name, names);
  return UsageError(
      absl::StrCat("there is no command \"", Printable(name), "\"; ",
                   nearest.empty() ? "" : absl::StrCat("did you mean ", nearest, "? "),
                   "`kvpoolctl --help` lists them"));
}

// What is sent is UTF-8: the daemon would not understand anything else.
absl::Status CheckText(std::span<const std::string> arguments) {
  for (const std::string& argument : arguments) {
    if (IsUtf8(argument)) continue;
    return UsageError(absl::StrCat("argument \"", Printable(argument), "\" is not UTF-8"));
  }
  return absl::OkStatus();
}

absl::Status CheckFits(const Command& command, const CommandLine& line) {
  const size_t count = line.words.size() - 1;
  if (count < command.min_arguments || count > command.max_arguments) {
    return UsageError(UsageLine(command));
  }
  for (const std::string& name : line.option_names) {
    if (std::ranges::count(kSharedOptions, name) > 0) continue;
    if (std::ranges::count(command.options, name) > 0) continue;
    const absl::string_view nearest = NearestName(name, command.options);
    return UsageError(absl::StrCat(
        command.name, " takes no --", name, "; ",
        nearest.empty() ? absl::StrCat("`kvpoolctl ", command.name, " --help` lists what it takes")
                        : absl::StrCat("did you mean --", nearest, "?")));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> Run(std::span<const std::string> arguments, const Environment& environment,
                             absl::Time now, std::ostream& out) {
  KVPOOL_RETURN_IF_ERROR(CheckText(arguments));
  KVPOOL_ASSIGN_OR_RETURN(CommandLine line, ParseCommandLine(arguments));
  if (!line.words.empty() && line.words.front() == kHelpWord) {
    line.words.erase(line.words.begin());
    line.options.help = true;
  }
  if (line.options.version) {
    out << "kvpoolctl " KVPOOL_VERSION "\n";
    return ExitCode::kOk;
  }
  if (line.words.empty()) {
    if (!line.options.help) return UsageError("no command; `kvpoolctl --help` lists them");
    out << OverviewHelp();
    return ExitCode::kOk;
  }
  KVPOOL_ASSIGN_OR_RETURN(const Command* const command, FindCommand(line.words[0]));
  if (line.options.help) {
    out << CommandHelp(*command);
    return ExitCode::kOk;
  }
  KVPOOL_RETURN_IF_ERROR(CheckFits(*command, line));
  // Before gRPC has threads.
  std::optional<StopSignal> stop;
  if (command->is_endless) stop.emplace();
  std::optional<Connection> connection;
  if (command->needs_daemon) {
    KVPOOL_ASSIGN_OR_RETURN(std::string socket, ChooseSocket(line.options, environment));
    connection.emplace(std::move(socket), line.options.timeout.value_or(command->timeout));
  }
  return command->run({.arguments = std::span(line.words).subspan(1),
                       .options = line.options,
                       .environment = environment,
                       .connection = connection.has_value() ? &*connection : nullptr,
                       .now = now,
                       .out = out,
                       .stop = stop.has_value() ? stop->token() : std::stop_token()});
}

}  // namespace

ExitCode RunCli(std::span<const std::string> arguments, const Environment& environment,
                absl::Time now, std::ostream& out, std::ostream& errors) {
  const absl::StatusOr<ExitCode> result = Run(arguments, environment, now, out);
  if (result.ok()) return *result;
  const ExitCode code = ExitCodeFor(result.status());
  errors << "kvpoolctl: "
         << (code == ExitCode::kUsage ? std::string(result.status().message())
                                      : ErrorText(result.status()))
         << "\n";
  return code;
}

}  // namespace kvpool::cli
