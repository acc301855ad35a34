#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/clock.h"
#include "core/device/device.h"
#include "core/ledger/ledger.h"
#include "core/memory/memory.h"
#include "core/pool/pool_types.h"

namespace kvpool {

class PoolLedger;
struct PoolHandle;

// Pool is a ledger and a memory behind one mutex, and the order of the two in each call: who may
// touch which bytes is settled by the ledger, then the bytes move without the mutex, then the
// ledger is told.
//
// Callbacks are called exactly once, without the mutex, on the caller's thread or a device's; they
// must not block. Calls keep the pool alive until their callback is over. Ledger says what each
// call does and how it fails. Once a device of the pool has failed, what opens a session, takes,
// publishes or finds blocks, or moves bytes is FAILED_PRECONDITION (DEVICE_FAILED): what was there
// is lost. Thread-safe.
class Pool : public std::enable_shared_from_this<Pool> {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;
  using AllocCallback = absl::AnyInvocable<void(absl::StatusOr<AllocAnswer>)>;

  // Allocates the memory on `devices` (one a shard). `observer` and the devices must outlive it.
  static absl::StatusOr<std::shared_ptr<Pool>> Create(const PoolOptions& options,
                                                      std::span<Device* const> devices,
                                                      const Clock& clock, PoolObserver& observer);

  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  // --- Sessions: as Ledger's ---
  absl::StatusOr<Duration> OpenSession(const OpenSessionCall& call);
  absl::Status Attach(const Caller& caller, ProcessId process);
  void Detach(const SessionId& session);
  absl::Status AddProcess(const Caller& caller, ProcessId process);
  absl::Status CloseSession(const Caller& caller);
  absl::Status TerminateSession(const SessionId& session, bool release_claims);
  void ProcessGone(ProcessId process);

  // --- Blocks ---
  // Answers by `done`, at once where it can. Returns what Cancel takes, or 0 where there is nothing
  // left to cancel: `done` has been called, or is being called.
  PendingId Alloc(const AllocCall& call, AllocCallback done);
  // Withdraws a call that still waits: its callback is called with CANCELLED, and it got nothing.
  // Else nothing happens, and the callback has been or will be called with the call's own result.
  void Cancel(PendingId id);
  absl::Status IncRef(const IncRefCall& call);
  absl::StatusOr<DecRefAnswer> DecRef(const DecRefCall& call);

  // --- Prefix cache ---
  // The keys of a prefix in the pool, the caller's tenant and its session's model, which are filled
  // in; of `max_blocks` at most, 0.1 us for 16 tokens. Errors: as CheckPrefix's and GetModel's.
  absl::StatusOr<PrefixKeys> HashPrefix(const Caller& caller, Prefix prefix,
                                        size_t max_blocks) const;
  absl::StatusOr<PublishAnswer> Publish(const PublishCall& call);
  absl::StatusOr<LookupAnswer> Lookup(const LookupCall& call);
  absl::StatusOr<EvictAnswer> Evict(const EvictCall& call);
  uint32_t ResetPrefixes(std::optional<absl::string_view> tenant);

  // As PrefixWatches'. `wake` is called whenever a watch that was read to its end has more to
  // read, or the pool goes; maybe once more while it is being closed.
  WatchId OpenWatch(const WatchCall& call, const std::function<void()>& wake);
  WatchProgress ReadWatch(WatchId id, std::vector<PrefixEvent>& events);
  uint64_t WatchSequence(WatchId id) const;
  void CloseWatch(WatchId id);

  // --- Bytes ---
  // Fills whole blocks that the session holds, not sealed nor claimed, in slices: kZero or kPoison.
  void FillBlocks(const Caller& caller, std::vector<BlockRef> blocks, Fill fill, Done done);

  // Copies source i of `source` to destination i of `destination` (maybe the same pool), in slices.
  // `destination_session` absent: the caller's. Errors: INVALID_ARGUMENT, lists of different
  // lengths, or a destination listed twice or also a source; FAILED_PRECONDITION, LAYOUT_MISMATCH,
  // or as Ledger::Pin.
  static void CopyBlocks(const std::shared_ptr<Pool>& source,
                         const std::shared_ptr<Pool>& destination, const Caller& caller,
                         std::vector<BlockRef> sources, std::vector<BlockRef> destinations,
                         std::optional<SessionId> destination_session, Done done);

  // The bytes of blocks that the session holds, in pieces under 1 MiB: blocks in the order given,
  // layers ascending, K then V (not a V that aliases K). `layers` empty: all. Errors:
  // INVALID_ARGUMENT, naming a shard, a layer or a block that is not there; NOT_HELD and
  // STALE_BLOCK. The session does not expire while the reader lives.
  using Reader = PieceReader;
  absl::StatusOr<std::unique_ptr<Reader>> OpenReader(const Caller& caller,
                                                     std::vector<BlockRef> blocks,
                                                     std::vector<uint32_t> layers, uint32_t shard);

  // Writes one piece, checked whole first, into a block as FillBlocks takes them.
  void Write(const Caller& caller, BlockPiece piece, Done done);

  absl::Status BeginCall(const Caller& caller);  // For streams of Write calls.
  void EndCall(const SessionId& session);

  // Checksums of live blocks' bytes, a layer at a time: those before `boundary` of the list apart
  // from the rest. V is all zero where it aliases K or is not there.
  // Errors: INVALID_ARGUMENT, a block or shard out of range; FAILED_PRECONDITION (NOT_LIVE), a
  // free block; ABORTED (STALE_BLOCK), a block at another generation than given, before or after.
  void ChecksumLayers(std::vector<BlockRef> blocks, uint32_t boundary, uint32_t shard,
                      absl::AnyInvocable<void(absl::StatusOr<std::vector<LayerChecksum>>)> done);
  // Of one layer, an entry a block.
  void ChecksumBlocks(std::vector<BlockRef> blocks, uint32_t layer, uint32_t shard,
                      absl::AnyInvocable<void(absl::StatusOr<std::vector<BlockChecksum>>)> done);

  // --- Time ---
  // Does what fell due, and one slice of reclaiming. Returns when to call it again: now, if more is
  // to be reclaimed; absent: when something happens.
  std::optional<TimePoint> Advance();

  // --- Inspection ---
  LedgerCounts counts() const;
  bool is_idle() const;
  BlockInfo GetBlock(BlockId block) const;
  std::vector<BlockInfo> ListBlocks(uint32_t first, uint32_t count) const;
  std::string TraceLine(BlockId block) const;
  absl::StatusOr<SessionInfo> GetSession(const SessionId& session, uint32_t max_blocks) const;
  std::vector<SessionInfo> ListSessions() const;
  absl::Status CheckInvariants() const;
  const PoolLayout& layout() const { return memory_->layout(); }
  const Memory& memory() const { return *memory_; }

 private:
  Pool(const PoolOptions& options, std::unique_ptr<Memory> memory, const Clock& clock,
       PoolObserver& observer);

  PoolHandle handle();

  const std::unique_ptr<Memory> memory_;
  const std::unique_ptr<PoolLedger> ledger_;
  const uint32_t reclaim_slice_;
  const PrefixHasher hasher_;
};

}  // namespace kvpool
