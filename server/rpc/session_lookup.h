#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/ledger/status.h"
#include "server/rpc/inspect_convert.h"
#include "server/rpc/unary_calls.h"
#include "server/session_hub.h"

namespace kvpool::server {

// The one session whose id begins with `prefix`, among those that the viewer sees: live ones, and
// ended ones that still claim.
// Errors: INVALID_ARGUMENT: no 8 to 32 lower-case hex digits, or several sessions begin so;
// NOT_FOUND (SESSION_UNKNOWN).
absl::StatusOr<SessionCall> FindSessionByPrefix(const SessionHub& sessions,
                                                absl::string_view prefix, const Viewer& viewer);

}  // namespace kvpool::server
