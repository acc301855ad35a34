#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/ids.h"
#include "core/layout/pool_spec.h"

namespace kvpool {

// The calls that Ledger takes, their answers, and the events that it emits: all of them values.
// What a call points to (views, spans) must outlive the call alone.

// Whose call it is. A session answers to callers of its own tenant only.
struct Caller {
  SessionId session;
  absl::string_view tenant;
};

struct OpenSessionCall {
  SessionId id;  // Fresh and random.
  absl::string_view tenant;
  absl::string_view client_name;
  absl::string_view model_id;
  int64_t pid = 0;  // As the daemon sees it, for inspection; 0 where it cannot.
  uint32_t uid = 0;
  ProcessId process{};  // The first of the session's processes.
  Duration ttl{};
  uint32_t guaranteed_blocks = 0;
  // Joins that session: `model_id` and `guaranteed_blocks` must then be unset.
  std::optional<SessionId> join;
};

// Which queue a call waits in. Nobody in kAdmit is served before anybody in kGrow.
enum class WaitQueue : uint8_t {
  kGrow,   // Alloc: a running sequence needs its next block.
  kAdmit,  // Acquire: a new sequence is admitted.
};

struct AllocCall {
  Caller caller;
  uint32_t count = 0;
  bool allow_partial = false;  // Not with `wait`.
  std::optional<Duration> wait;
  Fill fill = Fill::kUnspecified;
  std::span<const BlockRef> release;  // Dropped first, in the same step.
  uint64_t idempotency_key = 0;       // 0: none.
  WaitQueue queue = WaitQueue::kGrow;
};

struct IncRefCall {
  Caller caller;
  std::span<const BlockRef> blocks;
  uint64_t idempotency_key = 0;
};

struct DecRefCall {
  Caller caller;
  std::span<const BlockRef> blocks;
  bool done = false;
  uint64_t idempotency_key = 0;
};

// Pins blocks for one slice of a byte operation: those of `reads` shared, those of `writes`
// alone. A block named more than once in a list is pinned once.
struct PinCall {
  Caller caller;
  std::span<const BlockRef> reads;
  std::span<const BlockRef> writes;
  // The session, of the same tenant, that holds `writes`. Absent: the caller's.
  std::optional<SessionId> write_session;
};

struct AllocAnswer {
  std::vector<BlockRef> blocks;  // Generations filled in.
  uint32_t available = 0;        // What the session could still allocate.

  bool operator==(const AllocAnswer&) const = default;
};

struct DecRefAnswer {
  uint32_t freed = 0;
  uint32_t cached = 0;
  uint32_t available = 0;

  bool operator==(const DecRefAnswer&) const = default;
};

// The answer, or where `pending` is not 0 the promise of an AllocDone event: the call waits for
// room, or its blocks are being filled.
struct AllocOutcome {
  PendingId pending{};
  AllocAnswer answer;
};

// `id` ends the pin. Where `granted` is false, a PinDone event says when it begins.
struct PinOutcome {
  PendingId id{};
  bool granted = false;
};

// A pending Alloc ended.
struct AllocDone {
  PendingId id{};
  absl::StatusOr<AllocAnswer> result;
};

// A pending Alloc has its blocks, pinned, and waits for these fills: Ledger::FillDone answers.
struct FillNeeded {
  PendingId id{};
  std::vector<BlockId> zero;
  std::vector<BlockId> poison;
};

// A pin that had to wait was granted, or its blocks are not the session's any more.
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
// inspection.
struct SessionEnded {
  SessionId id;
  SessionEnd reason{};
};

// Nothing is left of the session: its processes need not be watched on its behalf any more.
struct SessionForgotten {
  SessionId id;
};

// A process that had joined `id` is gone.
struct MemberGone {
  SessionId id;
};

using LedgerEvent =
    std::variant<AllocDone, FillNeeded, PinDone, SessionEnded, SessionForgotten, MemberGone>;

}  // namespace kvpool
