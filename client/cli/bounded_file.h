#pragma once

#include <cstddef>
#include <istream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kvpool::cli {

// All that the file has; or the rest of `input`, of that name. A usage error, naming `what` it is
// and which, where it cannot be read or is longer than `max_bytes`.
absl::StatusOr<std::string> ReadBounded(const std::string& path, absl::string_view what,
                                        size_t max_bytes);
absl::StatusOr<std::string> ReadBounded(std::istream& input, absl::string_view name,
                                        absl::string_view what, size_t max_bytes);

}  // namespace kvpool::cli
