#include "core/hex.h"

#include <charconv>
#include <cstdint>

namespace kvpool {

std::optional<std::string> BytesFromHex(absl::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (const char* digits = hex.data(); digits != hex.data() + hex.size(); digits += 2) {
    uint8_t byte = 0;
    // An unsigned number: no sign is taken for a digit.
    const std::from_chars_result read = std::from_chars(digits, digits + 2, byte, 16);
    if (read.ptr != digits + 2) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

}  // namespace kvpool
