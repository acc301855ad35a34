#include "core/device/ipc_probe.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "core/hex.h"

namespace kvpool {
namespace {

// The finalizer of SplitMix64: a bijection, so that numbers that differ stay so.
uint64_t Mix(uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31U);
}

absl::Status WrongPart(absl::string_view part, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("IPC probe: the ", part, " is \"", text, "\""));
}

}  // namespace

std::string IpcProbeText(const IpcProbe& probe) {
  std::string handle(probe.handle.size(), '\0');
  std::memcpy(handle.data(), probe.handle.data(), handle.size());
  return absl::StrCat(probe.device_uuid, ":", probe.size_bytes, ":", probe.seed, ":",
                      absl::BytesToHexString(handle));
}

absl::StatusOr<IpcProbe> ParseIpcProbe(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  if (parts.size() != 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("IPC probe: ", parts.size(), " parts, not the 4 of UUID:SIZE:SEED:HANDLE"));
  }
  IpcProbe probe{.device_uuid = std::string(parts[0]), .handle = {}};
  if (probe.device_uuid.empty()) return WrongPart("UUID", parts[0]);
  if (!absl::SimpleAtoi(parts[1], &probe.size_bytes) || probe.size_bytes == 0 ||
      probe.size_bytes > kMaxIpcProbeBytes) {
    return WrongPart("size", parts[1]);
  }
  if (!absl::SimpleAtoi(parts[2], &probe.seed)) return WrongPart("seed", parts[2]);
  const std::optional<std::string> bytes = BytesFromHex(parts[3]);
  if (!bytes.has_value() || bytes->empty()) return WrongPart("handle", parts[3]);
  probe.handle.resize(bytes->size());
  std::memcpy(probe.handle.data(), bytes->data(), bytes->size());
  return probe;
}

std::vector<std::byte> IpcPattern(uint64_t seed, uint64_t size_bytes) {
  std::vector<std::byte> bytes(size_bytes);
  for (uint64_t at = 0; at < size_bytes; at += sizeof(uint64_t)) {
    const uint64_t word = Mix(seed + at / sizeof(uint64_t));
    std::memcpy(bytes.data() + at, &word, std::min(sizeof(word), size_bytes - at));
  }
  return bytes;
}

}  // namespace kvpool
