#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace kvpool::test {

// What gRPC's client sends to the socket at `address` for a few calls that are right: a session in
// pool "p" is opened, gets blocks, is kept alive and closed. UNAVAILABLE where the daemon takes no
// connection; else the error of the call that failed.
absl::StatusOr<std::string> RecordExchange(const std::string& address);

}  // namespace kvpool::test
