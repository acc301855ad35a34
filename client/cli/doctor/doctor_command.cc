#include "client/cli/doctor/doctor_command.h"

#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/strip.h"

#include "client/cli/connection.h"
#include "client/cli/doctor/daemon_checks.h"
#include "client/cli/doctor/finding.h"
#include "client/cli/doctor/gpu_checks.h"
#include "client/cli/doctor/gpu_list.h"
#include "client/cli/doctor/process_checks.h"
#include "client/cli/doctor/socket_checks.h"
#include "core/device/gpus.h"
#include "core/device/memory_limits.h"

namespace kvpool::cli {
namespace {

// A driver takes seconds to come up, of a node with many GPUs.
constexpr Duration kDriverLimit = std::chrono::seconds(10);

absl::StatusOr<v1::GetDaemonResponse> AskDaemon(Connection& connection) {
  v1::GetDaemonResponse daemon;
  const absl::Status status = connection.Call(
      connection.inspect(), &v1::InspectService::Stub::GetDaemon, v1::GetDaemonRequest(), &daemon);
  if (!status.ok()) return status;
  return daemon;
}

v1::ListPoolsResponse AskPools(Connection& connection) {
  v1::ListPoolsResponse pools;
  // Who is not answered has been told so by then.
  (void)connection.CallList(connection.inspect(), &v1::InspectService::Stub::ListPools,
                            v1::ListPoolsRequest(), &pools);
  return pools;
}

void Append(std::vector<Finding> more, std::vector<Finding>& findings) {
  for (Finding& finding : more) findings.push_back(std::move(finding));
}

}  // namespace

absl::StatusOr<ExitCode> RunDoctor(const CommandContext& context) {
  const std::string path(absl::StripPrefix(context.connection->socket(), "unix:"));
  const absl::StatusOr<v1::GetDaemonResponse> daemon = AskDaemon(*context.connection);
  const DaemonProcess process = FindDaemonProcess(path);

  std::vector<Finding> findings = CheckDaemon(daemon, KVPOOL_VERSION);
  if (daemon.ok()) Append(CheckPools(AskPools(*context.connection)), findings);
  Append(CheckSocket(path), findings);
  const v1::GetDaemonResponse known = daemon.value_or(v1::GetDaemonResponse());
  const absl::StatusOr<std::vector<DeviceInfo>> gpus = ListGpus(MakeGpus(), kDriverLimit);
  Append(CheckGpus(gpus, known), findings);
  Append(CheckIpc(known), findings);
  const bool has_gpus = CountGpus(known) > 0 || (gpus.ok() && !gpus->empty());
  if (has_gpus) findings.push_back(CheckPids(process, getpid()));
  Append(CheckLimits(process, ReadProc("/proc/self/limits"), has_gpus), findings);
  const absl::StatusOr<DeviceMemory> node = ParseMeminfo(ReadProc("/proc/meminfo"));
  findings.push_back(CheckMemory(ReadMemoryLimits(), node.ok() ? node->total_bytes : 0));

  context.out << (context.options.json ? FindingsJson(findings) : FindingsText(findings));
  if (!daemon.ok()) return ExitCodeFor(daemon.status());
  return HasFailure(findings) ? ExitCode::kRefused : ExitCode::kOk;
}

}  // namespace kvpool::cli
