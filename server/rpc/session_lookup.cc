#include "server/rpc/session_lookup.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/error.h"

namespace kvpool::server {
namespace {

constexpr size_t kIdDigits = 32;
constexpr size_t kShownIdDigits = 8;  // In listings.

bool IsLowerHex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

}  // namespace

absl::StatusOr<SessionCall> FindSessionByPrefix(const SessionHub& sessions,
                                                absl::string_view prefix, const Viewer& viewer) {
  if (prefix.size() < kShownIdDigits || prefix.size() > kIdDigits) {
    return absl::InvalidArgumentError(absl::StrCat(
        "session_id has ", prefix.size(), " characters; it is the first ", kShownIdDigits,
        " of an id, as listings show them, or more, up to all ", kIdDigits));
  }
  if (!std::ranges::all_of(prefix, IsLowerHex)) {
    return absl::InvalidArgumentError(
        "session_id has characters that are no lower-case hex digits, which an id consists of");
  }
  // What a message may repeat.
  const absl::string_view shown = prefix.substr(0, kShownIdDigits);
  std::optional<SessionCall> found;
  for (const SessionId& session : sessions.FindByPrefix(prefix)) {
    std::shared_ptr<Pool> pool = sessions.FindPool(session);
    if (pool == nullptr) continue;
    const absl::StatusOr<SessionInfo> info = pool->GetSession(session, 0);
    if (!info.ok() || !viewer.Sees(info->tenant)) continue;
    if (found.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("several sessions begin with ", shown, "; give more of the id"));
    }
    found = SessionCall{.session = session, .pool = std::move(pool)};
  }
  if (!found.has_value()) {
    return MakeError(absl::StatusCode::kNotFound, {.reason = Reason::kSessionUnknown},
                     absl::StrCat("no session begins with ", shown));
  }
  return *std::move(found);
}

}  // namespace kvpool::server
