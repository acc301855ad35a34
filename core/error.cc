#include "core/error.h"

#include <array>
#include <cstring>
#include <string>

#include "absl/strings/cord.h"

namespace kvpool {
namespace {

constexpr char kPayloadUrl[] = "kvpool/error_detail";

constexpr std::array<absl::string_view, 24> kReasonNames = {
    "UNSPECIFIED", "SESSION_UNKNOWN", "LAYOUT_MISMATCH", "PID_COLLISION",  "POOL_FULL",
    "QUOTA",       "GUARANTEE",       "STALE_BLOCK",     "NOT_LIVE",       "NOT_HELD",
    "SEALED",      "CLAIMED",         "PARENT_UNKNOWN",  "NOT_LEAF",       "ATTACHED",
    "KEY_SPENT",   "IN_USE",          "STARTING",        "DRAINING",       "JOINED",
    "BUSY",        "LIMIT",           "DEVICE",          "DEVICE_FAILED",
};

}  // namespace

absl::Status MakeError(absl::StatusCode code, const ErrorDetail& detail,
                       absl::string_view message) {
  absl::Status status(code, message);
  std::string bytes(sizeof(detail), '\0');
  std::memcpy(bytes.data(), &detail, sizeof(detail));
  status.SetPayload(kPayloadUrl, absl::Cord(bytes));
  return status;
}

ErrorDetail GetErrorDetail(const absl::Status& status) {
  ErrorDetail detail;
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value() || payload->size() != sizeof(detail)) return detail;
  const std::string bytes(*payload);
  std::memcpy(&detail, bytes.data(), sizeof(detail));
  return detail;
}

absl::string_view ReasonName(Reason reason) {
  const auto index = static_cast<size_t>(reason);
  return index < kReasonNames.size() ? kReasonNames[index] : "UNKNOWN";
}

}  // namespace kvpool
