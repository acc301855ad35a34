#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvpool::test {

// More than anybody asks for, on connections of their own to the socket at `address`.

// `count` calls that are each wrong, on four connections at once: huge counts, ids that are none,
// texts that are no text, lists of unequal lengths. How they ended, such as "NOT_FOUND=12".
// INTERNAL where one did not fail.
absl::StatusOr<std::string> FloodWithBadCalls(const std::string& address,
                                              const std::string& session_id, uint32_t count);

// Opens `count` streams, right and wrong, and breaks each off.
absl::Status FloodWithStreams(const std::string& address, const std::string& session_id,
                              uint32_t count);

// The longest lists and messages that there may be, each wrong in what it holds, and one more.
// INTERNAL, naming it, where one is answered otherwise.
absl::Status SendOversize(const std::string& address, const std::string& session_id);

// Opens `count` sessions in pool "p", and how those that were refused were, such as "refused=2
// RESOURCE_EXHAUSTED LIMIT=2".
absl::StatusOr<std::string> OpenManySessions(const std::string& address, uint32_t count,
                                             std::vector<std::string>& session_ids);
absl::Status CloseSessions(const std::string& address, const std::vector<std::string>& session_ids);

// Starts `count` calls that wait for room, for as long as they can, and returns how those ended
// that did by the time that `refused_count` had.
absl::StatusOr<std::string> WaitManyTimes(const std::string& address, const std::string& session_id,
                                          uint32_t count, uint32_t refused_count);

}  // namespace kvpool::test
