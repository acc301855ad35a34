#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kvpool::server {

// The status for a failed system call: "<what>: <text of errno>". RESOURCE_EXHAUSTED where
// something ran out (EMFILE, ENFILE, ENOMEM, ENOSPC), PERMISSION_DENIED for EACCES, EPERM and
// EROFS, NOT_FOUND for ENOENT and ESRCH, else INTERNAL.
absl::Status SystemError(absl::string_view what, int error_number);

}  // namespace kvpool::server
