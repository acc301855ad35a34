#include "client/cli/daemon_commands.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "client/cli/connection.h"
#include "client/cli/json.h"
#include "client/cli/pool_view.h"
#include "client/cli/table.h"
#include "client/cli/text.h"
#include "client/cli/time_view.h"
#include "core/status_macros.h"

namespace kvpool::cli {
namespace {

using Health = grpc::health::v1::HealthCheckResponse;

absl::string_view StateText(const v1::GetDaemonResponse& daemon) {
  if (daemon.draining()) return "draining";
  return daemon.starting() ? "starting" : "serving";
}

std::string DaemonText(const v1::GetDaemonResponse& daemon, absl::Time now) {
  Table table;
  table.AddRow({"version", daemon.version()});
  table.AddRow({"epoch", daemon.daemon_epoch()});
  table.AddRow({"started", TimeText(daemon.start_time(), now)});
  table.AddRow({"state", std::string(StateText(daemon))});
  table.AddRow({"devices", absl::StrJoin(daemon.devices(), ", ",
                                         [](std::string* out, const v1::Device& device) {
                                           absl::StrAppend(out, DeviceText(device));
                                         })});
  table.AddRow({"eviction policies", absl::StrJoin(daemon.eviction_policies(), ", ")});
  table.AddRow({"block tracing", daemon.block_tracing() ? "on" : "off"});
  table.AddRow(
      {"reclaim proof", EnumText(v1::ReclaimProof_Name(daemon.reclaim_proof()), "RECLAIM_PROOF_")});
  for (const std::string& warning : daemon.warnings()) table.AddRow({"warning", warning});
  return table.ToString();
}

}  // namespace

absl::StatusOr<ExitCode> RunStatus(const CommandContext& context) {
  Connection& connection = *context.connection;
  v1::GetDaemonResponse daemon;
  KVPOOL_RETURN_IF_ERROR(connection.Call(connection.inspect(), &v1::InspectService::Stub::GetDaemon,
                                         v1::GetDaemonRequest(), &daemon));
  if (context.options.json) {
    context.out << ToJson(daemon);
    return ExitCode::kOk;
  }
  v1::ListPoolsResponse pools;
  KVPOOL_RETURN_IF_ERROR(connection.CallList(
      connection.inspect(), &v1::InspectService::Stub::ListPools, v1::ListPoolsRequest(), &pools));
  context.out << DaemonText(daemon, context.now) << "\n" << PoolsText(pools.pools());
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> RunHealth(const CommandContext& context) {
  Connection& connection = *context.connection;
  Health response;
  KVPOOL_RETURN_IF_ERROR(connection.Call(connection.health(),
                                         &grpc::health::v1::Health::Stub::Check,
                                         grpc::health::v1::HealthCheckRequest(), &response));
  context.out << (context.options.json
                      ? ToJson(response)
                      : absl::StrCat(Health::ServingStatus_Name(response.status()), "\n"));
  return response.status() == Health::SERVING ? ExitCode::kOk : ExitCode::kRefused;
}

}  // namespace kvpool::cli
