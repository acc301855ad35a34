#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "absl/strings/string_view.h"

#include "core/ids.h"
#include "core/ledger/alloc_call.h"

namespace kvpool {

// The calls that Ledger takes and their answers, all of them values. What a call points to (views,
// spans) must outlive the call alone.
//
// The entries of a list count as if they came one after the other: the same block twice is dropped
// twice, and a block may be named without its generation once an entry before has added it. All
// are checked before any is done.
//
// Errors common to all calls, in this order: NOT_FOUND, SESSION_UNKNOWN: no live session has that
// id. PERMISSION_DENIED: the session is another tenant's. FAILED_PRECONDITION, JOINED: the session
// holds nothing of its own. INVALID_ARGUMENT: a list over max_blocks_per_call, a block id out of
// range anywhere in a list, or another request under a known key. FAILED_PRECONDITION, KEY_SPENT:
// the answer under the key names a block that the session does not hold at that generation; it may
// stay spent when the session takes that block again. Errors of an entry are looked for entry by
// entry; the first is told, of each entry in the order in which they are listed here.
//
// A call repeats an earlier one of its key only where everything but `caller` is equal, `wait`
// included.

// Errors: NOT_FOUND (SESSION_UNKNOWN), the session to join is not live; PERMISSION_DENIED, it is
// another tenant's; FAILED_PRECONDITION (JOINED), it is itself joined; INVALID_ARGUMENT, a
// guarantee or model with join, or a guarantee over the tenant's quota or the pool;
// RESOURCE_EXHAUSTED, LIMIT or GUARANTEE.
struct OpenSessionCall {
  SessionId id;  // Fresh and random.
  absl::string_view tenant;
  absl::string_view client_name{};
  absl::string_view model_id{};
  int64_t pid = 0;  // As the daemon sees it, for inspection; 0 where it cannot.
  uint32_t uid = 0;
  // The first of the session's processes. 0: none, as of a peer that is given no memory; then
  // the session leaves no claims on its behalf. Its ProcessGone must be yet to come.
  ProcessId process{};
  Duration ttl{};
  uint32_t guaranteed_blocks = 0;
  // Joins that session: `model_id` and `guaranteed_blocks` must then be unset.
  std::optional<SessionId> join{};
};

// Adds a reference for each entry. A block that the session does not hold needs its
// generation, as another session of the tenant passed it on. A cached one becomes held.
// Errors: FAILED_PRECONDITION, NOT_HELD (no generation given), STALE_BLOCK (another
// generation), or NOT_LIVE (free or quarantined); PERMISSION_DENIED: another tenant's block;
// RESOURCE_EXHAUSTED, LIMIT (a block's references, or all blocks' sharers), or POOL_FULL: cached
// ones that others are guaranteed.
struct IncRefCall {
  Caller caller;
  std::span<const BlockRef> blocks{};
  uint64_t idempotency_key = 0;
};

// Drops a reference for each entry, in order.
// Errors: FAILED_PRECONDITION, NOT_HELD (at any generation) or STALE_BLOCK (held, but not at
// that generation), naming the first such entry.
struct DecRefCall {
  Caller caller;
  std::span<const BlockRef> blocks{};
  bool done = false;
  uint64_t idempotency_key = 0;
};

// Pins blocks for one slice of a byte operation: those of `reads` shared, those of `writes`
// alone. A block named more than once is pinned once, alone if any list says so.
struct PinCall {
  Caller caller;
  std::span<const BlockRef> reads{};
  std::span<const BlockRef> writes{};
  // The session, of the same tenant, that holds `writes`. Absent: the caller's.
  std::optional<SessionId> write_session{};
};

struct DecRefAnswer {
  uint32_t freed = 0;
  uint32_t cached = 0;
  uint32_t available = 0;  // As AllocAnswer's.

  bool operator==(const DecRefAnswer&) const = default;
};

// `id` ends the pin. Where `granted` is false, a PinDone event says when it begins.
struct PinOutcome {
  PendingId id{};
  bool granted = false;
};

}  // namespace kvpool
