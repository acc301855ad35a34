#include "core/device/cuda/device_list.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool::cuda {
namespace {

// 8-4-4-4-12 digits, as nvidia-smi has it.
std::string UuidText(const Uuid& uuid, absl::string_view prefix) {
  const std::string hex = absl::BytesToHexString({uuid.bytes, sizeof(uuid.bytes)});
  const absl::string_view digits = hex;
  return absl::StrCat(prefix, digits.substr(0, 8), "-", digits.substr(8, 4), "-",
                      digits.substr(12, 4), "-", digits.substr(16, 4), "-", digits.substr(20));
}

// Whether the device is a part of a GPU: it has a UUID of its own then. A driver that cannot tell
// the GPU's is too new to have been partitioned under another name.
bool IsPart(const Driver& driver, Ordinal device, const Uuid& uuid) {
  Uuid of_gpu{};
  return driver.api().cuDeviceGetUuidOfGpu != nullptr &&
         driver.api().cuDeviceGetUuidOfGpu(&of_gpu, device) == Result::kSuccess &&
         std::memcmp(&of_gpu, &uuid, sizeof(uuid)) != 0;
}

absl::StatusOr<DeviceEntry> Describe(const Driver& driver, int ordinal) {
  const Api& api = driver.api();
  DeviceEntry entry;
  KVPOOL_RETURN_IF_ERROR(driver.ToStatus(api.cuDeviceGet(&entry.ordinal, ordinal), "cuDeviceGet"));
  Uuid uuid{};
  KVPOOL_RETURN_IF_ERROR(
      driver.ToStatus(api.cuDeviceGetUuid(&uuid, entry.ordinal), "cuDeviceGetUuid"));
  entry.uuid = UuidText(uuid, IsPart(driver, entry.ordinal, uuid) ? "MIG-" : "GPU-");
  std::array<char, 256> name{};
  KVPOOL_RETURN_IF_ERROR(driver.ToStatus(
      api.cuDeviceGetName(name.data(), static_cast<int>(name.size()), entry.ordinal),
      "cuDeviceGetName"));
  entry.name = name.data();
  return entry;
}

}  // namespace

absl::StatusOr<std::vector<DeviceEntry>> ListDevices(const Driver& driver) {
  int count = 0;
  KVPOOL_RETURN_IF_ERROR(
      driver.ToStatus(driver.api().cuDeviceGetCount(&count), "cuDeviceGetCount"));
  std::vector<DeviceEntry> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    KVPOOL_ASSIGN_OR_RETURN(DeviceEntry entry, Describe(driver, ordinal));
    devices.push_back(std::move(entry));
  }
  return devices;
}

absl::StatusOr<std::vector<DeviceInfo>> ListDeviceInfos(const Driver& driver) {
  KVPOOL_ASSIGN_OR_RETURN(const std::vector<DeviceEntry> entries, ListDevices(driver));
  std::vector<DeviceInfo> infos;
  infos.reserve(entries.size());
  for (const DeviceEntry& entry : entries) infos.push_back(entry.info());
  return infos;
}

absl::StatusOr<DeviceEntry> FindDevice(const Driver& driver, absl::string_view selector) {
  absl::string_view wanted = selector;
  const bool is_cuda = absl::ConsumePrefix(&wanted, "cuda:");
  int ordinal = 0;
  const bool is_ordinal = absl::SimpleAtoi(wanted, &ordinal);
  const bool is_uuid = absl::StartsWith(wanted, "GPU-") || absl::StartsWith(wanted, "MIG-");
  if (!is_cuda || (!is_ordinal && !is_uuid)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "device '", selector,
        "' is neither \"cuda:<number>\", nor \"cuda:GPU-<uuid>\" nor \"cuda:MIG-<uuid>\""));
  }
  KVPOOL_ASSIGN_OR_RETURN(const std::vector<DeviceEntry> devices, ListDevices(driver));
  const auto found = std::ranges::find_if(devices, [&](const DeviceEntry& entry) {
    return is_ordinal ? entry.ordinal == ordinal : absl::EqualsIgnoreCase(entry.uuid, wanted);
  });
  if (found != devices.end()) return *found;
  const std::string all = absl::StrJoin(devices, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.ordinal, " = ", entry.uuid);
  });
  return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kDevice},
                   absl::StrCat("there is no device '", selector, "' here; there are: ", all));
}

}  // namespace kvpool::cuda
