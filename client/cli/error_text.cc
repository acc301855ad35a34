#include "client/cli/error_text.h"

#include "absl/strings/str_cat.h"

#include "client/cli/text.h"
#include "core/error.h"

namespace kvpool::cli {

std::string ErrorText(const absl::Status& status) {
  const Reason reason = GetErrorDetail(status).reason;
  return absl::StrCat(
      absl::StatusCodeToString(status.code()), reason == Reason::kUnspecified ? "" : ", ",
      reason == Reason::kUnspecified ? "" : ReasonName(reason), ": ", Printable(status.message()));
}

}  // namespace kvpool::cli
