#include "core/pool/byte_errors.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "core/error.h"

namespace kvpool {

absl::Status DeviceFailed(const absl::Status& error) {
  return MakeError(absl::StatusCode::kFailedPrecondition, {.reason = Reason::kDeviceFailed},
                   error.message());
}

absl::Status CountIndexFrom(uint32_t first, const absl::Status& error) {
  ErrorDetail detail = GetErrorDetail(error);
  switch (detail.reason) {
    case Reason::kNotHeld:
    case Reason::kStaleBlock:
    case Reason::kNotLive:
    case Reason::kSealed:
    case Reason::kClaimed:
      break;
    default:
      return error;
  }
  // The message begins with the entry too.
  absl::string_view message = error.message();
  std::string counted;
  if (absl::ConsumePrefix(&message, absl::StrCat("entry ", detail.index, ":"))) {
    counted = absl::StrCat("entry ", detail.index + first, ":");
  }
  absl::StrAppend(&counted, message);
  detail.index += first;
  return MakeError(error.code(), detail, counted);
}

absl::Status LetGoMeanwhile(const absl::Status& error) {
  ErrorDetail detail = GetErrorDetail(error);
  if (detail.reason != Reason::kNotHeld && detail.reason != Reason::kStaleBlock &&
      detail.reason != Reason::kNotLive) {
    return error;
  }
  // Held or not, what was read is of a block that has changed hands.
  if (detail.reason == Reason::kNotLive) detail.reason = Reason::kStaleBlock;
  return MakeError(absl::StatusCode::kAborted, detail,
                   absl::StrCat("let go meanwhile: ", error.message()));
}

}  // namespace kvpool
