#pragma once

#include <string>

#include "absl/status/status.h"

namespace kvpool::cli {

// "NOT_FOUND: no pool "x"", with the daemon's reason where it gave one: "UNAVAILABLE, DRAINING:
// draining". Printable, on one line.
std::string ErrorText(const absl::Status& status);

}  // namespace kvpool::cli
