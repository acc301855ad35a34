#include "client/cli/replay_command.h"

#include "client/cli/replay/arguments.h"
#include "client/cli/replay/simulation_run.h"
#include "client/cli/replay/trace.h"
#include "core/status_macros.h"

namespace kvpool::cli {

absl::StatusOr<ExitCode> RunReplay(const CommandContext& context) {
  KVPOOL_ASSIGN_OR_RETURN(const replay::ReplayArguments arguments,
                          replay::ReplayArguments::Read(context.options));
  const std::string& path = context.arguments[0];
  KVPOOL_ASSIGN_OR_RETURN(const replay::Trace trace, replay::Trace::Read(path, arguments.format));
  KVPOOL_ASSIGN_OR_RETURN(const replay::SimulationRun run,
                          replay::SimulationRun::Make(path, trace, arguments));
  if (context.options.csv) {
    context.out << run.ToCsv();
  } else {
    context.out << (context.options.json ? run.ToJson() : run.ToTable());
  }
  return ExitCode::kOk;
}

}  // namespace kvpool::cli
