#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"

#include "core/ids.h"
#include "core/layout/pool_spec.h"
#include "core/ledger/prefix/prefix_hasher.h"

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

// Whose call it is. A session answers to callers of its own tenant only.
struct Caller {
  SessionId session;
  absl::string_view tenant;
};

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

// Which queue a call waits in. Nobody in kAdmit is served before anybody in kGrow.
enum class WaitQueue : uint8_t {
  kGrow,   // Alloc: a running sequence needs its next block.
  kAdmit,  // Acquire: a new sequence is admitted.
};

// What the session may take is free + cached, less the unfilled guarantees of all sessions; what
// it lacks itself of its own guarantee it may take of all of that, though others' come short by
// it. While anybody waits in `queue` or before it, it may take what it lacks of its guarantee and
// no more, whatever `release` gives up.
//
// With `prefix` it is an Acquire: the blocks of the longest findable prefix are taken first, of
// which those that nobody holds count like new ones. They are found anew when a waiting call's
// turn comes. One that waits is served before its turn only where what its session lacks of its
// guarantee is all of `count`, as if nothing were found.
struct AllocCall {
  Caller caller;
  uint32_t count = 0;  // Those of the prefix included.
  const PrefixKeys* prefix = nullptr;
  uint32_t max_new_blocks = 0;     // With `prefix`: how many new ones at most. 0: all.
  bool allow_partial = false;      // Not where it may wait, nor with `prefix`.
  std::optional<Duration> wait{};  // 0 and less: as if absent.
  Fill fill = Fill::kUnspecified;
  // Dropped first, in the same step. What that frees is counted for this call before anything
  // else, and it counts as not held where a guarantee or quota is looked at.
  std::span<const BlockRef> release{};  // Not with `prefix`.
  uint64_t idempotency_key = 0;         // 0: none.
  WaitQueue queue = WaitQueue::kGrow;   // kAdmit with `prefix`.

  bool may_wait() const { return wait.has_value() && *wait > Duration::zero(); }
};

struct IncRefCall {
  Caller caller;
  std::span<const BlockRef> blocks{};
  uint64_t idempotency_key = 0;
};

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

struct AllocAnswer {
  std::vector<BlockRef> blocks{};  // Generations filled in.
  // With `prefix`: how many of `blocks`, the first ones, hold it; and the key of the last of
  // these, else that of the prefix's parent, if any.
  uint32_t matched_blocks = 0;
  std::optional<PrefixKey> last_key{};
  // What the session could allocate next in kGrow, quota included: once everybody who waits has
  // had a turn, or, answered by an event, just before the next in line has.
  uint32_t available = 0;

  bool operator==(const AllocAnswer&) const = default;
};

struct DecRefAnswer {
  uint32_t freed = 0;
  uint32_t cached = 0;
  uint32_t available = 0;  // As AllocAnswer's.

  bool operator==(const DecRefAnswer&) const = default;
};

// The answer, or where `pending` is not 0 the promise of an AllocDone event: the call waits for
// room, or its blocks are being filled. It counts as a running call until then.
struct AllocOutcome {
  PendingId pending{};
  AllocAnswer answer;
};

// `id` ends the pin. Where `granted` is false, a PinDone event says when it begins.
struct PinOutcome {
  PendingId id{};
  bool granted = false;
};

}  // namespace kvpool
