#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace kvpool {

// The bytes that `hex` spells, two digits each, of either case; absent where it is not that.
// (absl::HexStringToBytes has one signature in one release and another in the next.)
std::optional<std::string> BytesFromHex(absl::string_view hex);

}  // namespace kvpool
