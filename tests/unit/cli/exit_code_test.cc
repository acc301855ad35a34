#include "client/cli/exit_code.h"

#include "core/error.h"
#include "tests/support/catch.h"

namespace kvpool::cli {
namespace {

TEST_CASE("Exit codes are the numbers that the help lists") {
  CHECK(static_cast<int>(ExitCode::kOk) == 0);
  CHECK(static_cast<int>(ExitCode::kRefused) == 1);
  CHECK(static_cast<int>(ExitCode::kUsage) == 2);
  CHECK(static_cast<int>(ExitCode::kUnreachable) == 3);
}

TEST_CASE("What the daemon refuses exits with 1, a usage error with 2, silence with 3") {
  CHECK(ExitCodeFor(absl::OkStatus()) == ExitCode::kOk);
  CHECK(ExitCodeFor(absl::NotFoundError("")) == ExitCode::kRefused);
  CHECK(ExitCodeFor(absl::InvalidArgumentError("")) == ExitCode::kRefused);
  CHECK(ExitCodeFor(absl::UnimplementedError("")) == ExitCode::kRefused);
  CHECK(ExitCodeFor(absl::PermissionDeniedError("")) == ExitCode::kRefused);
  CHECK(ExitCodeFor(absl::InternalError("")) == ExitCode::kRefused);
  CHECK(ExitCodeFor(UsageError("")) == ExitCode::kUsage);
  CHECK(ExitCodeFor(absl::UnavailableError("")) == ExitCode::kUnreachable);
  CHECK(ExitCodeFor(absl::DeadlineExceededError("")) == ExitCode::kUnreachable);
}

TEST_CASE("A daemon that gives a reason for being unavailable was reached") {
  for (const Reason reason : {Reason::kStarting, Reason::kDraining}) {
    CHECK(ExitCodeFor(MakeError(absl::StatusCode::kUnavailable, {.reason = reason}, "")) ==
          ExitCode::kRefused);
  }
}

}  // namespace
}  // namespace kvpool::cli
