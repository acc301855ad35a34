#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace kvpool::test {

// Writes `content` to a file of that name. Its path is returned.
std::string WriteFile(const std::string& path, absl::string_view content);

// `content` as `xz` compresses it.
std::string CompressXz(absl::string_view content);

}  // namespace kvpool::test
