#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include <spdlog/common.h>

namespace kvpool::server {

// The daemon's log: one line an event, `event=session_ended session=1a2b3c4d pool=chat`, written
// with spdlog::info and its like. Ids always, payloads never.

// The level of that name: trace, debug, info, warning, error, critical or off. INVALID_ARGUMENT,
// listing them, for any other.
absl::StatusOr<spdlog::level::level_enum> ParseLogLevel(absl::string_view name);

// Sends the log to `fd` through a thread of its own: callers never wait for whoever reads `fd`.
// Where lines come faster than they are taken, the oldest are dropped; where nobody takes them
// for a while, new ones are, and their number is told later. gRPC's and protobuf's own logs come
// along, at most a few lines a second. Not to be called twice without StopLogging.
void StartLogging(int fd, spdlog::level::level_enum level);

// Writes what is left, for as long as `fd` takes it. Later lines go nowhere.
void StopLogging();

// `text`, which a client or an operator chose, as the value of a key: as it is where it is made of
// letters, digits and "_.:/@+-" alone, else in double quotes with everything escaped that could
// end the value or the line; cut after 256 bytes.
std::string LogText(absl::string_view text);

}  // namespace kvpool::server
