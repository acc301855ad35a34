#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/ids.h"
#include "core/ledger/calls.h"
#include "core/ledger/watch_calls.h"

namespace kvpool {

// What Ledger tells by itself, in the order in which it happened.

// A pending Alloc ended.
struct AllocDone {
  PendingId id{};
  absl::StatusOr<AllocAnswer> result;
};

// A pending Alloc has its blocks, pinned, and waits for these fills: Ledger::FillDone answers,
// under this id even where a repeat of the call has taken its place.
struct FillNeeded {
  PendingId id{};
  std::vector<BlockId> zero;
  std::vector<BlockId> poison;
};

// A pin that had to wait was granted; or it was not, as its session has ended or does not hold its
// blocks any more, or they are not to be written to.
struct PinDone {
  PendingId id{};
  absl::Status status;
};

enum class SessionEnd : uint8_t {
  kClosed,       // CloseSession, of it or of the session that it joined.
  kExpired,      // Unattached, and no call for its ttl.
  kDetached,     // Its stream broke.
  kProcessGone,  // The process at its stream's other end is gone.
  kTerminated,   // By an operator.
  kParentEnded,  // The session that it joined ended otherwise than by CloseSession.
};

// From now on the session's id is SESSION_UNKNOWN to all but CloseSession, TerminateSession and
// inspection. Its pending calls end next, by their own events, with SESSION_UNKNOWN.
struct SessionEnded {
  SessionId id;
  SessionEnd reason{};
};

// Nothing is left of the session: its processes need not be watched on its behalf any more.
struct SessionForgotten {
  SessionId id;
};

// A session that had joined `id`, which is live, ended otherwise than by CloseSession.
struct MemberGone {
  SessionId id;
};

// There is more to read for a watch that was read to its end. Told once each time.
struct WatchReady {
  WatchId id{};
};

using LedgerEvent = std::variant<AllocDone, FillNeeded, PinDone, SessionEnded, SessionForgotten,
                                 MemberGone, WatchReady>;

}  // namespace kvpool
