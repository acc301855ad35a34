#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/ids.h"
#include "core/ledger/alloc_desk.h"
#include "core/ledger/calls.h"
#include "core/ledger/inspector.h"
#include "core/ledger/keyed_calls.h"
#include "core/ledger/options.h"
#include "core/ledger/pin_desk.h"
#include "core/ledger/reclaimer.h"
#include "core/ledger/session_desk.h"
#include "core/ledger/state.h"
#include "core/ledger/status.h"

namespace kvpool {

// Ledger knows who holds which block of one pool. It is a pure state machine: no thread, no
// clock, no I/O; calls in, answers and events out. A call that fails has changed nothing.
//
// Invariants: free + cached + held + quarantined = num_blocks; a block is free exactly when it
// has no reference, no claim and no pin; a block is never given to two sessions by Alloc.
//
// Every operation that takes `now` first does what fell due by then, as Advance. `now` never
// goes back.
//
// Common errors: NOT_FOUND, SESSION_UNKNOWN: no live session has that id. PERMISSION_DENIED: the
// session is another tenant's. FAILED_PRECONDITION, JOINED: the session holds nothing of its
// own. INVALID_ARGUMENT: a block id out of range, a list over max_blocks_per_call, or another
// request under a known key. FAILED_PRECONDITION, KEY_SPENT: the answer under the key names a
// block that the session does not hold at that generation any more.
//
// Not thread-safe: Pool holds its mutex around every call.
class Ledger {
 public:
  // Requires valid options.
  explicit Ledger(const LedgerOptions& options);

  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // --- Sessions ---

  // Opens an unattached session and returns the ttl granted: `call.ttl` within the limits.
  //
  // Errors: NOT_FOUND (SESSION_UNKNOWN), the session to join is not live; PERMISSION_DENIED, it
  // is another tenant's; FAILED_PRECONDITION (JOINED), it is itself joined; INVALID_ARGUMENT, a
  // guarantee or model with join, or a guarantee over the tenant's quota or the pool;
  // RESOURCE_EXHAUSTED, LIMIT or GUARANTEE.
  absl::StatusOr<Duration> OpenSession(const OpenSessionCall& call, TimePoint now);

  // Binds the session to a stream whose other end is `process`, which becomes one of the
  // session's processes. Works on joined sessions too.
  // Errors: FAILED_PRECONDITION (ATTACHED): it has a stream already.
  absl::Status Attach(const Caller& caller, ProcessId process, TimePoint now);

  // The stream ended: ends the session. Nothing happens where it has ended already.
  void Detach(const SessionId& session, TimePoint now);

  // Makes `process`, which is given the memory, one of the session's processes. Joined too.
  absl::Status AddProcess(const Caller& caller, ProcessId process, TimePoint now);

  // A long call runs in the session's name: until EndCall it does not expire.
  // BeginCall checks the session as every call does; EndCall of an ended session is nothing.
  absl::Status BeginCall(const Caller& caller, TimePoint now);
  void EndCall(const SessionId& session, TimePoint now);

  // Ends the session and vouches for its processes and its members': no claim stays. On one that
  // ended otherwise, ends its claims. Errors: NOT_FOUND: there is nothing left of it.
  absl::Status CloseSession(const Caller& caller, TimePoint now);

  // Ends any tenant's session as if its stream had broken; with `release_claims`, also the
  // claims that it leaves or had left. Errors: NOT_FOUND.
  absl::Status TerminateSession(const SessionId& session, bool release_claims, TimePoint now);

  // The process is gone: sessions attached to it end, claims in its name do after claim_grace.
  void ProcessGone(ProcessId process, TimePoint now);

  // --- Blocks ---

  // Takes `call.count` blocks for the session. As `kvpool.v1.BlockService.Alloc` says, waiting,
  // `release`, guarantees of others and keys included. A key of a call that is still pending
  // takes that call's place: the first ends by AllocDone with ABORTED.
  //
  // Errors: RESOURCE_EXHAUSTED, POOL_FULL (with what could be had), QUOTA, or LIMIT (too many
  // waiting calls); INVALID_ARGUMENT, more than the pool can ever give, or `wait` and
  // `allow_partial` together; FAILED_PRECONDITION, NOT_HELD or STALE_BLOCK, in `release`.
  absl::StatusOr<AllocOutcome> Alloc(const AllocCall& call, TimePoint now);

  // The fills of a FillNeeded are over. Where `status` is not OK the call fails with it, and its
  // blocks are let go.
  void FillDone(PendingId id, const absl::Status& status, TimePoint now);

  // Withdraws a waiting Alloc or Pin. False where it is not waiting any more: then it has been
  // or will be answered by its event. Once true, it gets nothing and no event.
  bool Cancel(PendingId id, TimePoint now);

  // Adds a reference for each entry. A block that the session does not hold needs its
  // generation, as another session of the tenant passed it on.
  //
  // Errors: FAILED_PRECONDITION, STALE_BLOCK (another generation), NOT_LIVE (free or
  // quarantined), or NOT_HELD (no generation given); PERMISSION_DENIED: another tenant's block;
  // RESOURCE_EXHAUSTED (LIMIT): a count would pass 2^32 - 1, or QUOTA.
  absl::Status IncRef(const IncRefCall& call, TimePoint now);

  // Drops a reference for each entry, in order.
  // Errors: FAILED_PRECONDITION, NOT_HELD or STALE_BLOCK, naming the first such entry.
  absl::StatusOr<DecRefAnswer> DecRef(const DecRefCall& call, TimePoint now);

  // --- Byte operations ---

  // Begins one slice of a byte operation on blocks that the session holds. Operations on one
  // block take turns, first come first served, reads together.
  //
  // Errors: FAILED_PRECONDITION, NOT_HELD, STALE_BLOCK, or (writes) SEALED or CLAIMED.
  absl::StatusOr<PinOutcome> Pin(const PinCall& call, TimePoint now);

  // Ends a granted pin.
  void Unpin(PendingId id, TimePoint now);

  // Whether the session holds each of `blocks` at its generation (where given). The first that
  // it does not is named: NOT_HELD or STALE_BLOCK.
  absl::Status CheckHeld(const Caller& caller, std::span<const BlockRef> blocks) const;

  // --- Time ---

  // Does what fell due: sessions that expire, waits that end, claims whose grace is over.
  void Advance(TimePoint now);

  // When Advance has something to do next; absent: never, as things stand.
  std::optional<TimePoint> NextDeadline() const;

  // Drops at most `max_references` of what ended sessions still hold. True where some is left.
  bool Reclaim(uint32_t max_references, TimePoint now);

  // What happened since the last call, in order.
  std::vector<LedgerEvent> TakeEvents();

  // --- Inspection ---

  LedgerCounts counts() const;
  // No session is open, and no process that had one is left unvouched for.
  bool is_idle() const;
  // Requires block < num_blocks.
  BlockInfo GetBlock(BlockId block) const;
  // `alloc->1 @Alloc:1a2b3c4d | dec->0 @DecRef:1a2b3c4d`, or what to set to have it.
  std::string TraceLine(BlockId block) const;
  // Also sessions that ended and still hold or claim. At most `max_blocks` block ids.
  absl::StatusOr<SessionInfo> GetSession(const SessionId& session, uint32_t max_blocks) const;
  // Without block ids.
  std::vector<SessionInfo> ListSessions() const;

  // Checks the bookkeeping from the ground up, in time linear in it; INTERNAL names what is
  // wrong. For tests and for the daemon's own doubts.
  absl::Status CheckInvariants() const;

 private:
  absl::Status CheckList(std::span<const BlockRef> blocks) const;

  LedgerState state_;
  KeyedCalls keys_{state_};
  Reclaimer reclaimer_{state_};
  PinDesk pins_{state_};
  AllocDesk allocs_{state_, keys_, reclaimer_, pins_};
  SessionDesk sessions_{state_, reclaimer_, allocs_, pins_};
  Inspector inspector_{state_};
};

}  // namespace kvpool
