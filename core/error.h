#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kvpool {

// Why a call failed, for programs. The numbers are those of `kvpool.v1.ErrorDetail.Reason`.
enum class Reason : uint32_t {
  kUnspecified = 0,
  kSessionUnknown = 1,
  kLayoutMismatch = 2,
  kPidCollision = 3,
  kPoolFull = 4,
  kQuota = 5,
  kGuarantee = 6,
  kStaleBlock = 7,
  kNotLive = 8,
  kNotHeld = 9,
  kSealed = 10,
  kClaimed = 11,
  kParentUnknown = 12,
  kNotLeaf = 13,
  kAttached = 14,
  kKeySpent = 15,
  kInUse = 16,
  kStarting = 17,
  kDraining = 18,
  kJoined = 19,
  kBusy = 20,
  kLimit = 21,
  kDevice = 22,
  kDeviceFailed = 23,
};

// What a failed call says beside its code and message.
struct ErrorDetail {
  Reason reason = Reason::kUnspecified;
  uint32_t index = 0;      // The first wrong entry of the request's list, where one is wrong.
  uint32_t block_id = 0;   // The block of that entry.
  uint32_t available = 0;  // With kPoolFull: how many blocks could have been had.

  bool operator==(const ErrorDetail&) const = default;
};

// A status that carries `detail` as a payload. The message is for people: lower case, naming
// what was wrong with which value.
absl::Status MakeError(absl::StatusCode code, const ErrorDetail& detail,
                       absl::string_view message);

// The detail that `status` carries; all zero where it carries none.
ErrorDetail GetErrorDetail(const absl::Status& status);

// The name of a reason as the API spells it, such as "POOL_FULL".
absl::string_view ReasonName(Reason reason);

}  // namespace kvpool
