#include "client/cli/replay_command.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/connection.h"
#include "client/cli/replay/arguments.h"
#include "client/cli/replay/board.h"
#include "client/cli/replay/done_hints.h"
#include "client/cli/replay/drive_report.h"
#include "client/cli/replay/replay_worker.h"
#include "client/cli/replay/simulation_run.h"
#include "client/cli/replay/trace.h"
#include "client/cli/replay/worker_processes.h"
#include "core/status_macros.h"

namespace kvpool::cli {
namespace {

using replay::DriveReport;

constexpr absl::Duration kTimeout = absl::Seconds(10);  // Of a call.

absl::StatusOr<v1::PoolStatus> GetPool(Connection& connection, const std::string& pool) {
  v1::GetPoolRequest request;
  request.set_name(pool);
  v1::GetPoolResponse response;
  KVPOOL_RETURN_IF_ERROR(connection.Call(connection.inspect(), &v1::InspectService::Stub::GetPool,
                                         request, &response));
  return response.pool();
}

// Runs the workers, and looks at the pool before and after.
absl::Status Drive(const replay::WorkerPlan& plan, replay::Board& board, DriveReport& report) {
  const replay::WorkerProcesses::Work work = [&](uint32_t worker,
                                                 const std::function<void()>& wait) {
    auto opened = replay::ReplayWorker::Open(plan, worker, board);
    if (!opened.ok()) return opened.status();
    wait();
    KVPOOL_RETURN_IF_ERROR(opened->Run());
    // Nobody's share of the pool is let go while another has a request.
    wait();
    return opened->Close();
  };
  KVPOOL_ASSIGN_OR_RETURN(replay::WorkerProcesses workers,
                          replay::WorkerProcesses::Start(plan.workers, board, work));
  // gRPC starts threads: not before all are forked.
  Connection connection(plan.socket, absl::FromChrono(plan.timeout));
  KVPOOL_RETURN_IF_ERROR(workers.WaitUntilReady());
  KVPOOL_ASSIGN_OR_RETURN(const v1::PoolStatus before, GetPool(connection, plan.pool));
  const auto begin = std::chrono::steady_clock::now();
  board.SetBegin(begin);
  workers.GoOn();
  KVPOOL_RETURN_IF_ERROR(workers.WaitUntilReady());
  report.duration = std::chrono::steady_clock::now() - begin;
  workers.GoOn();
  KVPOOL_RETURN_IF_ERROR(workers.Join());
  KVPOOL_ASSIGN_OR_RETURN(const v1::PoolStatus after, GetPool(connection, plan.pool));
  report.CountResults(board.results());
  report.policy = after.layout().spec().eviction_policy();
  report.num_blocks = after.layout().num_blocks();
  const uint64_t findable = before.published_blocks() + report.published_blocks;
  report.evicted_blocks = findable - std::min<uint64_t>(findable, after.published_blocks());
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> RunDrive(const CommandContext& context,
                                  const replay::ReplayArguments& arguments,
                                  const replay::Trace& trace) {
  const replay::DriveArguments& drive = *arguments.drive;
  KVPOOL_ASSIGN_OR_RETURN(std::string socket, ChooseSocket(context.options, context.environment));
  const std::vector<bool> is_done = replay::ChooseDone(trace, arguments.done_percent);
  const replay::WorkerPlan plan{
      .trace = trace,
      .is_done = is_done,
      .block_tokens = arguments.format.block_tokens,
      .socket = std::move(socket),
      .pool = drive.pool,
      .timeout = absl::ToChronoNanoseconds(context.options.timeout.value_or(kTimeout)),
      .workers = drive.workers,
      .speed = drive.speed,
      .capacity = drive.capacity};
  KVPOOL_ASSIGN_OR_RETURN(replay::Board board,
                          replay::Board::Create(trace.requests().size(), drive.workers));
  DriveReport report{.trace_name = std::filesystem::path(context.arguments[0]).filename().string(),
                     .pool = drive.pool,
                     .workers = drive.workers,
                     .request_count = trace.requests().size(),
                     .block_count = trace.block_count()};
  KVPOOL_RETURN_IF_ERROR(Drive(plan, board, report));
  context.out << (context.options.json ? report.ToJson() : report.ToTable());
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> RunSimulation(const CommandContext& context,
                                       const replay::ReplayArguments& arguments,
                                       const replay::Trace& trace) {
  KVPOOL_ASSIGN_OR_RETURN(const replay::SimulationRun run,
                          replay::SimulationRun::Make(context.arguments[0], trace, arguments));
  if (context.options.csv) {
    context.out << run.ToCsv();
  } else {
    context.out << (context.options.json ? run.ToJson() : run.ToTable());
  }
  return ExitCode::kOk;
}

}  // namespace

absl::StatusOr<ExitCode> RunReplay(const CommandContext& context) {
  KVPOOL_ASSIGN_OR_RETURN(const replay::ReplayArguments arguments,
                          replay::ReplayArguments::Read(context.options));
  KVPOOL_ASSIGN_OR_RETURN(const replay::Trace trace,
                          replay::Trace::Read(context.arguments[0], arguments.format));
  return arguments.simulation.has_value() ? RunSimulation(context, arguments, trace)
                                          : RunDrive(context, arguments, trace);
}

}  // namespace kvpool::cli
