#include "core/ids.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "core/hex.h"

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
  const std::string bytes = BytesFromHex(text).value();
  std::ranges::copy(bytes, id.bytes.begin());
  return id;
}

}  // namespace kvpool
