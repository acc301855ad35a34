#include "server/system_error.h"

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace kvpool::server {
namespace {

absl::StatusCode CodeFor(int error_number) {
  switch (error_number) {
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
    case ENOSPC:
      return absl::StatusCode::kResourceExhausted;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOENT:
    case ESRCH:
      return absl::StatusCode::kNotFound;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status SystemError(absl::string_view what, int error_number) {
  // Not strerror: its buffer is shared by all threads.
  const std::string text = std::generic_category().message(error_number);
  return {CodeFor(error_number), absl::StrCat(what, ": ", text)};
}

}  // namespace kvpool::server
