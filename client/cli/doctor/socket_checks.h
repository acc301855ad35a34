#pragma once

#include <string>
#include <vector>

#include "client/cli/doctor/finding.h"

namespace kvpool::cli {

// Whether the socket at `path`, and every directory above it, are such that those whom it is for
// reach it and nobody can put another in its place.
std::vector<Finding> CheckSocket(const std::string& path);

}  // namespace kvpool::cli
