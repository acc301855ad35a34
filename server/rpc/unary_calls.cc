#include "server/rpc/unary_calls.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

#include "core/error.h"
#include "core/layout/pool_spec.h"

namespace kvpool::server {

absl::StatusOr<SessionCall> FindSession(const SessionHub& sessions, absl::string_view field,
                                        absl::string_view session_id) {
  const absl::StatusOr<SessionId> session = SessionId::Parse(session_id);
  if (!session.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(field, " has ", session_id.size(),
                                                   " characters; it is 32 lower-case hex digits"));
  }
  std::shared_ptr<Pool> pool = sessions.FindPool(*session);
  if (pool == nullptr) {
    return MakeError(absl::StatusCode::kNotFound, {.reason = Reason::kSessionUnknown},
                     absl::StrCat("session ", session->Short(),
                                  " is not known: closed, expired, or of an earlier daemon"));
  }
  return SessionCall{.session = *session, .pool = std::move(pool)};
}

Place PlaceFor(const v1::PoolSpec& spec, Place place) {
  const auto is_host = [](const std::string& device) { return device == kHostDevice; };
  return std::ranges::all_of(spec.devices(), is_host) ? place : Place::kGpus;
}

absl::Status CheckServing(const ServiceContext& context, absl::string_view refusal) {
  if (context.starting) {
    return MakeError(absl::StatusCode::kUnavailable, {.reason = Reason::kStarting},
                     "the daemon is starting: its pools are not there yet");
  }
  if (context.draining) {
    return MakeError(absl::StatusCode::kUnavailable, {.reason = Reason::kDraining},
                     absl::StrCat("the daemon is draining: ", refusal, " any more"));
  }
  return absl::OkStatus();
}

}  // namespace kvpool::server
