#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/ids.h"
#include "core/ledger/cache_calls.h"
#include "core/ledger/calls.h"
#include "core/ledger/desks.h"
#include "core/ledger/events.h"
#include "core/ledger/options.h"
#include "core/ledger/status.h"

namespace kvpool {

// Ledger knows who holds which block of one pool. It is a pure state machine: no thread, no
// clock, no I/O; calls in, answers and events out. A failed call has changed nothing, but that a
// known session's ttl begins anew. Invariants: free + cached + held + quarantined = num_blocks; a
// block is free exactly when it has no reference, the cache's included, no claim and no pin; Alloc
// never gives a block to two sessions. Every operation that takes `now`, which never goes back,
// first does what fell due by then, as Advance. What calls do and how they fail stands with the
// calls. Not thread-safe: Pool holds its mutex around every call.
class Ledger {
 public:
  explicit Ledger(const LedgerOptions& options);  // Requires valid options.
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // --- Sessions ---

  // Opens an unattached session and returns the ttl granted: `call.ttl` within the limits.
  absl::StatusOr<Duration> OpenSession(const OpenSessionCall& call, TimePoint now);

  // Binds the session, joined or not, to a stream whose other end is `process`, then one of its
  // own. Errors: FAILED_PRECONDITION (ATTACHED): it has a stream already.
  absl::Status Attach(const Caller& caller, ProcessId process, TimePoint now);
  // The stream ended: ends the session. Nothing happens where it has ended already.
  void Detach(const SessionId& session, TimePoint now);

  // Makes `process`, which is given the memory, one of the session's processes. Joined too.
  absl::Status AddProcess(const Caller& caller, ProcessId process, TimePoint now);

  // A long call runs in the session's name: until EndCall, nothing where it has ended, it does
  // not expire.
  absl::Status BeginCall(const Caller& caller, TimePoint now);
  void EndCall(const SessionId& session, TimePoint now);

  // Ends the session and vouches for its processes and its members': no claim stays. On one that
  // ended otherwise, ends its claims. What an end frees comes in order from the block that the
  // session took last to the first. Errors: NOT_FOUND: there is nothing left to vouch for.
  absl::Status CloseSession(const Caller& caller, TimePoint now);

  // Ends any tenant's session as if its stream had broken; with `release_claims`, also the
  // claims that it and its members leave or had left. Errors: NOT_FOUND, as CloseSession.
  absl::Status TerminateSession(const SessionId& session, bool release_claims, TimePoint now);

  // The process is gone: sessions attached to it end, claims in its name do after claim_grace.
  void ProcessGone(ProcessId process, TimePoint now);

  // --- Blocks ---

  // Takes `call.count` blocks for the session, at once or when its turn comes.
  absl::StatusOr<AllocOutcome> Alloc(const AllocCall& call, TimePoint now);

  // The fills of a FillNeeded are over. Where `status` is not OK the call fails with it, and its
  // blocks are let go.
  void FillDone(PendingId id, const absl::Status& status, TimePoint now);

  // Withdraws a waiting Alloc or Pin. False where it is not waiting any more: then it has been
  // or will be answered by its event. Once true, it gets nothing and no event.
  bool Cancel(PendingId id, TimePoint now);

  absl::Status IncRef(const IncRefCall& call, TimePoint now);
  absl::StatusOr<DecRefAnswer> DecRef(const DecRefCall& call, TimePoint now);

  // --- Prefix cache: as cache_calls.h says ---
  absl::StatusOr<PublishAnswer> Publish(const PublishCall& call, TimePoint now);
  absl::StatusOr<LookupAnswer> Lookup(const LookupCall& call, TimePoint now);
  absl::StatusOr<EvictAnswer> Evict(const EvictCall& call, TimePoint now);

  // Nothing that was findable, of that tenant or of all, is findable any more. Returns how many
  // blocks that is. Those that nobody holds become free in slices, as what ended sessions leave,
  // and count as cached until then.
  uint32_t ResetPrefixes(std::optional<absl::string_view> tenant, TimePoint now);

  // Those who watch it.
  PrefixWatches& watches() { return desks_.watches; }
  const PrefixWatches& watches() const { return desks_.watches; }

  // --- Byte operations ---

  // Begins one slice of a byte operation on blocks that the session holds. Operations on one
  // block take turns, first come first served, reads together. It is a running call until Unpin.
  // Errors: as CheckHeld, reads before writes; for writes also SEALED or CLAIMED.
  absl::StatusOr<PinOutcome> Pin(const PinCall& call, TimePoint now);
  void Unpin(PendingId id, TimePoint now);

  // Whether the session holds each of `blocks` at its generation (where given). The first that
  // it does not is named: FAILED_PRECONDITION, NOT_HELD or STALE_BLOCK, as DecRef.
  absl::Status CheckHeld(const Caller& caller, std::span<const BlockRef> blocks) const;

  // The session's model. Errors: INVALID_ARGUMENT, it has none.
  absl::StatusOr<std::string> GetModel(const Caller& caller) const;

  // --- Time ---

  // Does what fell due, in the order in which it did, at equal times sessions together and then
  // waits: sessions that expire, claims whose grace is over, waits (the calls ran until `now`).
  void Advance(TimePoint now);
  // When Advance has something to do next; absent: never, as things stand.
  std::optional<TimePoint> NextDeadline() const;

  // Drops at most `max_references` of what ended sessions still hold, a session's references to
  // one block counted once, or its claim, and of the cache's references after a reset. True where
  // some is left.
  bool Reclaim(uint32_t max_references, TimePoint now);

  // What happened since the last call, in order.
  std::vector<LedgerEvent> TakeEvents();

  // --- Inspection ---

  LedgerCounts counts() const;
  // No session is open, and no process that had one is left unvouched for.
  bool is_idle() const;
  BlockInfo GetBlock(BlockId block) const;  // Requires block < num_blocks.
  // `alloc->1 @Alloc:1a2b3c4d | dec->0 @DecRef:1a2b3c4d`, or what to set to have it.
  std::string TraceLine(BlockId block) const;
  // Also sessions that ended and still hold or claim. At most `max_blocks` block ids.
  absl::StatusOr<SessionInfo> GetSession(const SessionId& session, uint32_t max_blocks) const;
  // Without block ids, in the order in which they were opened.
  std::vector<SessionInfo> ListSessions() const;

  // Checks the bookkeeping from the ground up, in linear time; INTERNAL names what is wrong.
  absl::Status CheckInvariants() const;

 private:
  absl::Status CheckList(std::span<const BlockRef> blocks) const;

  LedgerDesks desks_;
};

}  // namespace kvpool
