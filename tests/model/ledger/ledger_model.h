#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "tests/model/ledger/model_rules.h"
#include "tests/model/ledger/model_state.h"
#include "tests/model/ledger/seen.h"
#include "tests/model/ledger/verdict.h"

namespace kvpool::test {

// LedgerModel is what the documents say that a ledger does, without any cleverness. Each
// operation takes a call, its time, the real ledger's answer and what the ledger did. It checks
// that this is right and notes what is not. Where the documents leave a choice (which of the
// blocks freed together is given out first, which reference of an ended session goes first) it
// checks that the ledger's choice is a legal one, and follows it.
class LedgerModel {
 public:
  explicit LedgerModel(const LedgerOptions& options) : state_(options) {}

  void OpenSession(const OpenSessionCall& call, TimePoint now,
                   const absl::StatusOr<Duration>& result, const Seen& seen);
  void Attach(const Caller& caller, ProcessId process, TimePoint now, const absl::Status& result,
              const Seen& seen);
  void AddProcess(const Caller& caller, ProcessId process, TimePoint now,
                  const absl::Status& result, const Seen& seen);
  void Detach(const SessionId& id, TimePoint now, const Seen& seen);
  void BeginCall(const Caller& caller, TimePoint now, const absl::Status& result, const Seen& seen);
  void EndCall(const SessionId& id, TimePoint now, const Seen& seen);
  void CloseSession(const Caller& caller, TimePoint now, const absl::Status& result,
                    const Seen& seen);
  void TerminateSession(const SessionId& id, bool release_claims, TimePoint now,
                        const absl::Status& result, const Seen& seen);
  void ProcessGone(ProcessId process, TimePoint now, const Seen& seen);

  void Alloc(const AllocCall& call, TimePoint now, const absl::StatusOr<AllocOutcome>& result,
             const Seen& seen);
  void FillDone(PendingId id, const absl::Status& status, TimePoint now, const Seen& seen);
  void Cancel(PendingId id, TimePoint now, bool result, const Seen& seen);
  void IncRef(const IncRefCall& call, TimePoint now, const absl::Status& result, const Seen& seen);
  void DecRef(const DecRefCall& call, TimePoint now, const absl::StatusOr<DecRefAnswer>& result,
              const Seen& seen);

  void Publish(const PublishCall& call, TimePoint now, const absl::StatusOr<PublishAnswer>& result,
               const Seen& seen);
  void Lookup(const LookupCall& call, TimePoint now, const absl::StatusOr<LookupAnswer>& result,
              const Seen& seen);
  // Require that nothing falls due: what becomes unfindable does by them.
  void Evict(const EvictCall& call, TimePoint now, const absl::StatusOr<EvictAnswer>& result,
             const Seen& seen);
  void ResetPrefixes(std::optional<absl::string_view> tenant, TimePoint now, uint32_t result,
                     const Seen& seen);

  void Pin(const PinCall& call, TimePoint now, const absl::StatusOr<PinOutcome>& result,
           const Seen& seen);
  void Unpin(PendingId id, TimePoint now, const Seen& seen);
  void CheckHeld(const Caller& caller, std::span<const BlockRef> blocks,
                 const absl::Status& result);

  void Advance(TimePoint now, const Seen& seen);
  void Reclaim(uint32_t max_references, TimePoint now, bool result, const Seen& seen);

  // Compares all that the ledger shows with the model. Returns what was wrong since the last
  // time, or nothing.
  std::string Check(const Ledger& ledger, const Seen& seen);

  const ModelState& state() const { return state_; }

 private:
  using Session = ModelState::Session;
  using Answer = ModelState::Answer;

  // ledger_model.cc
  void Begin(TimePoint now, const Seen& seen);
  void EndExpired();
  void EndWaits();
  bool EndOneWait();
  void Finish();
  void Settle();
  void Complain(const std::string& what);
  void Judge(const char* what, const Verdicts& verdicts, const absl::Status& status);
  void Note(uint32_t block, TraceOperation operation);
  void FreeIfDone(uint32_t block, bool is_ordered);
  void FreeAllDone();

  // ledger_model_sessions.cc
  Verdicts Admit(const Caller& caller, bool may_be_joined);
  void EndSession(const SessionId& id, SessionEnd reason, bool is_vouched);
  void EndCallsOf(const SessionId& id);
  void Vouch(const SessionId& id);
  uint64_t Leftovers(const SessionId& id) const;
  uint64_t Leftovers() const;
  // Where what ended sessions hold goes in slices, or that of several at one time, a number told in
  // the middle of a call depends on which went before: `available`, or any number.
  uint32_t Told(uint32_t available) const { return IsExact() ? available : kAnyNumber; }
  bool IsExact() const;
  bool IsSliced() const { return state_.options.limits.reclaim_slice < state_.options.num_blocks; }
  void ForgetSessions();
  void FollowReclaim();

  // ledger_model_alloc.cc
  bool IsFirst(const AllocCall& call, PendingId id) const;
  Verdicts CheckAlloc(const AllocCall& call, bool is_first, uint32_t* take,
                      bool is_waiting = true) const;
  Verdicts CheckAcquire(const AllocCall& call, bool is_first, uint32_t* take,
                        bool is_waiting) const;
  Verdicts CheckRoom(const AllocCall& call, bool is_first, uint32_t* take);
  bool AnswerFromKey(const AllocCall& call, const std::string& request,
                     const absl::StatusOr<AllocOutcome>& result);
  void AllocAnew(const AllocCall& call, const std::string& request,
                 const absl::StatusOr<AllocOutcome>& result);
  PendingId* FindPending(const SessionId& session, uint64_t key, std::string** request);
  void Serve(PendingId id, const AllocCall& call, const std::string& request, uint32_t take,
             const AllocAnswer* answer);
  void GiveOut(const AllocCall& call, std::span<const BlockRef> blocks, ExpectedEvent* needed);
  std::vector<BlockRef> BlocksOfFill(const FillNeeded& fill, const SessionId& session,
                                     uint32_t take) const;
  void MergeFreeGroups();
  void TakeFromStack(std::vector<BlockRef> blocks, bool is_in_order);

  // ledger_model_wait.cc
  void ServeWaiters();
  bool ServeOneWaiter();
  void ServeWaiter(PendingId id, const AllocCall& call, const std::string& request, uint32_t take);
  void RemoveWaiter(PendingId id);
  void EndWaiter(PendingId id, const Verdicts& verdicts);

  // ledger_model_blocks.cc
  void AddRef(uint32_t block, const SessionId& session, TraceOperation operation);
  void DropRef(uint32_t block, const SessionId& session, TraceOperation operation);
  DecRefAnswer DropRefs(const SessionId& session, std::span<const BlockRef> blocks);
  void Remember(const SessionId& session, uint64_t key, const std::string& request,
                const Answer& answer);

  // ledger_model_cache.cc
  void AcquireHits(const SessionId& session, const std::vector<uint32_t>& hits);
  void Unfind(uint32_t block);
  void FollowEvicted(const EvictCall& call, const EvictAnswer& answer);

  // ledger_model_evict.cc
  void MakeRoom(const std::string& tenant, uint32_t take, std::span<const BlockId> given);
  void EvictOne(const std::optional<std::string>& tenant, std::span<const BlockId> given);
  void EvictWhatShows();
  bool ShowsEvicted(uint32_t block) const;
  uint32_t ChooseBySight(const std::vector<uint32_t>& choices,
                         std::span<const BlockId> given) const;
  void FollowLeft();

  // ledger_model_pins.cc
  void ServePins();
  void FollowEarlyPinFailures();

  // ledger_model_compare.cc
  void CompareBlocks(const Seen& seen);
  void CompareBlock(uint32_t index, const BlockInfo& info);
  void CompareTrace(uint32_t index, const BlockInfo& info);
  void CompareSessions(const Ledger& ledger);
  void CompareSession(const SessionInfo& info);

  ModelState state_;
  TimePoint now_;  // Of the call; state_.now is that of what falls due.
  std::string complaint_;
  // Of the call that is being followed.
  const Seen* seen_ = nullptr;
  std::vector<ExpectedEvent> expected_;
  // References and claims of ended sessions that it dropped; at most as many as it may (absent:
  // any number), and at least as many as it must, unless none is left.
  uint64_t dropped_ = 0;
  uint64_t left_dropped_ = 0;       // The same of what resets left.
  std::set<uint32_t> done_before_;  // Leaves that were to go before all others when it began.
  std::optional<uint64_t> may_drop_;
  uint64_t must_drop_ = 0;
  uint64_t begun_ = 0;            // How many it began to drop.
  bool has_tie_ = false;          // The claims of several sessions ended at one time.
  bool is_replay_ = false;        // Answered from a key.
  bool has_loose_group_ = false;  // The last group of free blocks was begun by it.
};

}  // namespace kvpool::test
