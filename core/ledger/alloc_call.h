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

// The call that takes blocks, and whose it is. As those in calls.h, where what is common to all
// calls stands.

// Whose call it is. A session answers to callers of its own tenant only.
struct Caller {
  SessionId session;
  absl::string_view tenant;
};

// Which queue a call waits in. Nobody in kAdmit is served before anybody in kGrow.
enum class WaitQueue : uint8_t {
  kGrow,   // Alloc: a running sequence needs its next block.
  kAdmit,  // Acquire: a new sequence is admitted.
};

// Takes `count` blocks for the session. As `kvpool.v1.BlockService.Alloc` says, waiting,
// `release`, guarantees of others and keys included. A key of a call that is still pending
// takes that call's place and waits its own time: the first ends by AllocDone with ABORTED.
// A waiting call is judged afresh each time that its turn comes, errors included. Cached blocks
// are evicted as far as free ones do not suffice: the tenant's own to keep its quota, then
// whichever the policy chooses; where no leaf is unheld, held ones become unfindable until one
// is. With `prefix`, as `kvpool.v1.BlockService.Acquire`.
//
// Errors: INVALID_ARGUMENT, more than the pool can ever give, `wait` and `allow_partial`
// together, or a prefix without a model; FAILED_PRECONDITION, NOT_HELD or STALE_BLOCK, in
// `release`; RESOURCE_EXHAUSTED, QUOTA, POOL_FULL (with what could be had), or LIMIT (too many
// wait, would release, or share).
//
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

// The answer, or where `pending` is not 0 the promise of an AllocDone event: the call waits for
// room, or its blocks are being filled. It counts as a running call until then.
struct AllocOutcome {
  PendingId pending{};
  AllocAnswer answer;
};

}  // namespace kvpool
