#include "core/error.h"

#include <array>
#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace kvpool {
namespace {

constexpr char kPayloadUrl[] = "kvpool/error_detail";

constexpr std::array<absl::string_view, 24> kReasonNames = {
    "UNSPECIFIED", "SESSION_UNKNOWN", "LAYOUT_MISMATCH", "PID_COLLISION", "POOL_FULL",
    "QUOTA",       "GUARANTEE",       "STALE_BLOCK",     "NOT_LIVE",      "NOT_HELD",
    "SEALED",      "CLAIMED",         "PARENT_UNKNOWN",  "NOT_LEAF",      "ATTACHED",
    "KEY_SPENT",   "IN_USE",          "STARTING",        "DRAINING",      "JOINED",
    "BUSY",        "LIMIT",           "DEVICE",          "DEVICE_FAILED",
};

}  // namespace

absl::Status MakeError(absl::StatusCode code, const ErrorDetail& detail,
                       absl::string_view message) {
  absl::Status status(code, message);
  // Text, for it is seen by who prints the status.
  status.SetPayload(kPayloadUrl,
                    absl::Cord(absl::StrCat(ReasonName(detail.reason),
                                            " reason=", static_cast<uint32_t>(detail.reason),
                                            " index=", detail.index, " block_id=", detail.block_id,
                                            " available=", detail.available)));
  return status;
}

ErrorDetail GetErrorDetail(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return {};
  const std::string text(*payload);
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::ByAnyChar(" ="));
  // A name, and then four times a field's name and its number.
  if (parts.size() != 9) return {};
  std::array<uint32_t, 4> numbers{};
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (!absl::SimpleAtoi(parts[2 * i + 2], &numbers[i])) return {};
  }
  return {.reason = static_cast<Reason>(numbers[0]),
          .index = numbers[1],
          .block_id = numbers[2],
          .available = numbers[3]};
}

absl::string_view ReasonName(Reason reason) {
  const auto index = static_cast<size_t>(reason);
  return index < kReasonNames.size() ? kReasonNames[index] : "UNKNOWN";
}

}  // namespace kvpool
