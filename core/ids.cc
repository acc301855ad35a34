#include "core/ids.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace kvpool {
namespace {

absl::string_view AsText(const std::array<uint8_t, 16>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool IsLowerHex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

}  // namespace

std::string SessionId::ToString() const { return absl::BytesToHexString(AsText(bytes)); }

std::string SessionId::Short() const { return ToString().substr(0, 8); }

absl::StatusOr<SessionId> SessionId::Parse(absl::string_view text) {
  SessionId id;
  if (text.size() != 2 * id.bytes.size() || !std::ranges::all_of(text, IsLowerHex)) {
    return absl::InvalidArgumentError(absl::StrCat("session_id has ", text.size(),
                                                   " characters; it is 32 lower-case hex digits"));
  }
  // absl::HexStringToBytes has other signatures in newer releases.
  const char* digits = text.data();
  for (uint8_t& byte : id.bytes) {
    std::from_chars(digits, digits + 2, byte, 16);
    digits += 2;
  }
  return id;
}

}  // namespace kvpool
