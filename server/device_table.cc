#include "server/device_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include <spdlog/spdlog.h>

#include "core/error.h"
#include "core/status_macros.h"
#include "server/logging.h"

namespace kvpool::server {
namespace {

// The error of entry `index` of a list of devices, with its reason.
absl::Status OfEntry(size_t index, const std::string& selector, const absl::Status& error) {
  return MakeError(error.code(), GetErrorDetail(error),
                   absl::StrCat("devices[", index, "]: '", selector, "': ", error.message()));
}

}  // namespace

absl::StatusOr<std::vector<Device*>> DeviceTable::Find(const PoolSpec& spec) {
  std::vector<Device*> devices;
  devices.reserve(spec.devices.size());
  for (size_t i = 0; i < spec.devices.size(); ++i) {
    const std::string& selector = spec.devices[i];
    if (selector == kHostDevice) {
      devices.push_back(&host_);
      continue;
    }
    const absl::StatusOr<Device*> gpu = FindGpu(selector);
    if (!gpu.ok()) return OfEntry(i, selector, gpu.status());
    const auto same = std::ranges::find(devices, *gpu);
    if (same != devices.end()) {
      return OfEntry(i, selector,
                     absl::InvalidArgumentError(absl::StrCat("it is the GPU of devices[",
                                                             same - devices.begin(), "] too")));
    }
    devices.push_back(*gpu);
  }
  return devices;
}

absl::StatusOr<Device*> DeviceTable::FindGpu(const std::string& selector) {
  if (gpus_ == nullptr) {
    return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kDevice},
                     "there is no GPU in this daemon");
  }
  KVPOOL_ASSIGN_OR_RETURN(Device* const gpu, gpus_->Find(selector));
  Note(*gpu);
  Test(*gpu);
  return gpu;
}

void DeviceTable::Note(Device& gpu) {
  {
    const MutexLock lock(mutex_);
    if (!known_.try_emplace(&gpu).second) return;
  }
  absl::StatusOr<std::vector<DeviceInfo>> gpus = gpus_->List();
  if (!gpus.ok()) gpus = std::vector<DeviceInfo>{gpu.info()};
  spdlog::info("event=gpus count={}", gpus->size());
  const MutexLock lock(mutex_);
  listed_ = *std::move(gpus);
}

void DeviceTable::Test(Device& gpu) {
  if (test_ == nullptr) return;
  const MutexLock testing(test_mutex_);
  if (passed_.contains(&gpu)) return;
  const auto last = tested_.find(&gpu);
  if (last != tested_.end() && clock_() < last->second + kTestInterval) return;
  const absl::Status status = test_(gpu);
  tested_[&gpu] = clock_();
  if (status.ok()) passed_.insert(&gpu);
  spdlog::info("event=ipc_self_test device={} ok={}", gpu.info().uuid, status.ok());
  if (!status.ok()) spdlog::warn("event=warning message={}", LogText(status.message()));
  const MutexLock lock(mutex_);
  known_[&gpu].warning = std::string(status.message());
}

std::vector<DeviceInfo> DeviceTable::List() const {
  std::vector<DeviceInfo> devices = {host_.info()};
  const MutexLock lock(mutex_);
  devices.insert(devices.end(), listed_.begin(), listed_.end());
  return devices;
}

std::vector<std::string> DeviceTable::warnings() const {
  std::vector<std::string> texts;
  const MutexLock lock(mutex_);
  for (const auto& [gpu, known] : known_) {
    if (!known.warning.empty()) texts.push_back(known.warning);
    const absl::Status health = gpu->health();
    if (health.ok()) continue;
    texts.push_back(absl::StrCat("a GPU has failed, and what was on it is lost: ",
                                 std::string(health.message())));
  }
  return texts;
}

void DeviceTable::LogFailures() {
  const MutexLock lock(mutex_);
  for (auto& [gpu, known] : known_) {
    if (known.is_logged) continue;
    const absl::Status health = gpu->health();
    if (health.ok()) continue;
    known.is_logged = true;
    spdlog::error("event=device_failed device={} message={}", gpu->info().uuid,
                  LogText(health.message()));
  }
}

}  // namespace kvpool::server
