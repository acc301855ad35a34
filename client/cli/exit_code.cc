#include "client/cli/exit_code.h"

#include "absl/strings/cord.h"

#include "core/error.h"

namespace kvpool::cli {
namespace {

constexpr char kUsageUrl[] = "kvpoolctl/usage";

}  // namespace

absl::Status UsageError(absl::string_view message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kUsageUrl, absl::Cord());
  return status;
}

ExitCode ExitCodeFor(const absl::Status& status) {
  if (status.ok()) return ExitCode::kOk;
  if (status.GetPayload(kUsageUrl).has_value()) return ExitCode::kUsage;
  const bool is_silence = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  if (is_silence && GetErrorDetail(status).reason == Reason::kUnspecified) {
    return ExitCode::kUnreachable;
  }
  return ExitCode::kRefused;
}

}  // namespace kvpool::cli
