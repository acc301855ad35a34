#include "client/cli/doctor/daemon_checks.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "client/cli/error_text.h"

namespace kvpool::cli {
namespace {

constexpr absl::string_view kDaemon = "daemon";

Finding CheckState(const v1::GetDaemonResponse& daemon) {
  if (daemon.draining()) {
    return {Verdict::kWarn, "state", "draining: it takes no new sessions and ends; start it again"};
  }
  if (daemon.starting()) {
    return {Verdict::kWarn, "state",
            "starting: it makes the config's pools, and takes no sessions before; a warning below "
            "says so where it waits for something"};
  }
  return {Verdict::kOk, "state", "serving"};
}

Finding CheckProof(const v1::GetDaemonResponse& daemon) {
  constexpr absl::string_view kProof = "reclaim proof";
  switch (daemon.reclaim_proof()) {
    case v1::RECLAIM_PROOF_PIDFD:
      return {Verdict::kOk, kProof, "pidfd: the kernel tells when a worker is gone"};
    case v1::RECLAIM_PROOF_DELAY:
      return {Verdict::kWarn, kProof,
              "only a delay (kvpoold --reclaim_delay): the kernel gives no pidfd of some worker; "
              "Linux 6.5 does, of workers in any container"};
    default:
      return {Verdict::kOk, kProof, "not known before the first worker comes"};
  }
}

}  // namespace

bool IsAboutIpc(absl::string_view warning) { return absl::StrContains(warning, "CUDA IPC"); }

std::vector<Finding> CheckDaemon(const absl::StatusOr<v1::GetDaemonResponse>& daemon,
                                 absl::string_view own_version) {
  if (!daemon.ok()) return {{Verdict::kFail, kDaemon, ErrorText(daemon.status())}};
  std::vector<Finding> findings;
  const std::string text =
      absl::StrCat("version ", daemon->version(), ", epoch ", daemon->daemon_epoch());
  if (daemon->version() == own_version) {
    findings.push_back({Verdict::kOk, kDaemon, text});
  } else {
    findings.push_back({Verdict::kWarn, kDaemon,
                        absl::StrCat(text, "; this kvpoolctl is of version ", own_version,
                                     ": use the daemon's own")});
  }
  findings.push_back(CheckState(*daemon));
  findings.push_back(CheckProof(*daemon));
  for (const std::string& warning : daemon->warnings()) {
    if (!IsAboutIpc(warning)) findings.push_back({Verdict::kWarn, "warning", warning});
  }
  return findings;
}

std::vector<Finding> CheckPools(const v1::ListPoolsResponse& pools) {
  std::vector<Finding> findings;
  for (const v1::PoolStatus& pool : pools.pools()) {
    if (pool.failure().empty()) continue;
    findings.push_back(
        {Verdict::kFail, "pool",
         absl::StrCat(pool.layout().spec().name(), ": ", pool.failure(),
                      "; it refuses calls: restart the daemon once the device is well")});
  }
  return findings;
}

}  // namespace kvpool::cli
