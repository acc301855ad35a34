#include "client/cli/doctor/gpu_checks.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "client/cli/doctor/daemon_checks.h"
#include "client/cli/pool_view.h"

namespace kvpool::cli {
namespace {

constexpr absl::string_view kGpus = "gpus";
constexpr absl::string_view kIpc = "cuda ipc";

// Why this process has none.
std::string WhyNone(const absl::StatusOr<std::vector<DeviceInfo>>& here) {
  return here.ok() ? "the driver shows none" : std::string(here.status().message());
}

bool IsThere(const absl::StatusOr<std::vector<DeviceInfo>>& here, const v1::Device& device) {
  return here.ok() && std::ranges::count(*here, device.uuid(), &DeviceInfo::uuid) > 0;
}

}  // namespace

int CountGpus(const v1::GetDaemonResponse& daemon) {
  return static_cast<int>(
      std::ranges::count(daemon.devices(), v1::DEVICE_KIND_CUDA, &v1::Device::kind));
}

std::vector<Finding> CheckGpus(const absl::StatusOr<std::vector<DeviceInfo>>& here,
                               const v1::GetDaemonResponse& daemon) {
  if (absl::IsDeadlineExceeded(here.status())) {
    return {{Verdict::kFail, kGpus, std::string(here.status().message())}};
  }
  if (CountGpus(daemon) == 0 && (!here.ok() || here->empty())) {
    return {{Verdict::kOk, kGpus,
             absl::StrCat("none here, and none known of the daemon's: ", WhyNone(here))}};
  }
  std::vector<Finding> findings;
  if (here.ok() && !here->empty()) {
    findings.push_back(
        {Verdict::kOk, kGpus,
         absl::StrCat("here: ",
                      absl::StrJoin(*here, ", ", [](std::string* out, const DeviceInfo& device) {
                        absl::StrAppend(out, device.uuid, " (", device.name, ")");
                      }))});
  }
  for (const v1::Device& device : daemon.devices()) {
    if (device.kind() != v1::DEVICE_KIND_CUDA) continue;
    if (IsThere(here, device)) {
      findings.push_back({Verdict::kOk, kGpus, absl::StrCat("the daemon's: ", DeviceText(device))});
      continue;
    }
    findings.push_back(
        {Verdict::kWarn, kGpus,
         absl::StrCat("the daemon's ", DeviceText(device),
                      " is not to be seen here, so nothing here can map pools on it: ",
                      here.ok() && !here->empty() ? "it is none of those above" : WhyNone(here),
                      "; where workers run, give the container the GPU, and see "
                      "CUDA_VISIBLE_DEVICES")});
  }
  return findings;
}

std::vector<Finding> CheckIpc(const v1::GetDaemonResponse& daemon) {
  std::vector<Finding> findings;
  for (const std::string& warning : daemon.warnings()) {
    if (IsAboutIpc(warning)) findings.push_back({Verdict::kFail, kIpc, warning});
  }
  if (findings.empty() && CountGpus(daemon) > 0) {
    findings.push_back({Verdict::kOk, kIpc, "the daemon found nothing wrong with it"});
  }
  return findings;
}

}  // namespace kvpool::cli
