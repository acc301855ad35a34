#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "client/block_lease.h"
#include "client/call_options.h"
#include "client/mapping.h"
#include "client/options.h"
#include "client/prefix.h"
#include "core/ids.h"
#include "core/layout/pool_layout.h"

namespace kvpool::client {

class SessionCore;

// A session in a pool: what this process holds its blocks by. Two threads of its own keep it
// attached and give back what ended leases held, and a third waits for events, once there are any.
//
// Once it has ended (alive() says so), every call is NOT_FOUND, SESSION_UNKNOWN: open a new one
// (Client::KeepSession does by itself); what was computed in its blocks since is void. Every call's
// common errors are those of BlockService in block.proto. Calls are tried again as RetryPolicy
// says, and have one effect. Thread-safe, but for destruction.
class Session {
 public:
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // Close(), its answer dropped.
  ~Session();

  // Ends the session and all it holds. The caller vouches that none of its processes touches the
  // session's blocks any more: device work is complete. Returns within
  // ClientOptions::close_timeout. OK also where the daemon knew it no more, and when called
  // again; UNAVAILABLE or DEADLINE_EXCEEDED where the daemon does not answer.
  absl::Status Close();

  // False once the session was closed, its stream ended, or a call learnt that it is unknown.
  bool alive() const;
  // Why it is not alive; OK while it is.
  absl::Status status() const;

  // Takes `count` blocks that nobody else has; every lease that ended before is given back first.
  // Errors: RESOURCE_EXHAUSTED, POOL_FULL or QUOTA; INVALID_ARGUMENT, more than the pool can ever
  // give; FAILED_PRECONDITION, a `release` that has forks, or JOINED.
  absl::StatusOr<std::vector<BlockLease>> Alloc(uint32_t count, const AllocOptions& options = {});

  // Takes one reference of this session's own on each block handed over by another worker, by its
  // generation: none is refused without asking the daemon, which needs it of what is not held.
  // Errors: INVALID_ARGUMENT, no generation; FAILED_PRECONDITION, STALE_BLOCK, NOT_LIVE, JOINED;
  // RESOURCE_EXHAUSTED, LIMIT.
  absl::StatusOr<std::vector<BlockLease>> IncRef(std::span<const BlockRef> blocks);

  // Makes full, written blocks findable under their prefix, and seals them. The prefix covers
  // exactly `skip` blocks that are findable already, and then `blocks`, held by the session.
  // Errors: FAILED_PRECONDITION, NOT_HELD, SEALED (under another prefix), CLAIMED or
  // PARENT_UNKNOWN (publish from the start); ABORTED, BUSY: the daemon writes to it;
  // INVALID_ARGUMENT, other lengths, or the session has no model_id, as below.
  absl::StatusOr<Published> Publish(const Prefix& prefix, std::span<const BlockRef> blocks,
                                    uint32_t skip = 0);

  // The same, of blocks that a GPU still writes to: waits until `event` is done, and then
  // publishes. `event` is a CUevent (a cudaEvent_t is one) that was recorded after the writes, in
  // the primary context of a GPU of the pool's, as the CUDA runtime has it; it must live until the
  // call returns. Errors: as Publish; FAILED_PRECONDITION, a pool in the host's memory; DEVICE,
  // none of the pool's GPUs is visible here; DEVICE_FAILED or INTERNAL, the work failed or `event`
  // is none. Nothing is published then.
  absl::StatusOr<Published> PublishAfter(void* event, const Prefix& prefix,
                                         std::span<const BlockRef> blocks, uint32_t skip = 0);

  // Finds the longest findable prefix and takes a reference on each of its blocks in the same
  // step. Nothing found is no error. Errors: RESOURCE_EXHAUSTED, LIMIT or POOL_FULL.
  absl::StatusOr<FoundPrefix> Lookup(const Prefix& prefix);
  // The same, and holds nothing: for routing, say.
  absl::StatusOr<PrefixHint> Peek(const Prefix& prefix);

  // Admits a sequence of `total_blocks` blocks: holds what Lookup finds of it, and allocates what
  // the prefix lacks, as one step. Errors: as Alloc.
  absl::StatusOr<AcquiredBlocks> Acquire(const Prefix& prefix, uint32_t total_blocks,
                                         const AcquireOptions& options = {});

  // Makes blocks unfindable: those given, or the `count` of the tenant's that would be evicted
  // next. Who holds one keeps it. Errors: FAILED_PRECONDITION, NOT_LEAF: one with findable
  // children that are not given.
  // Neither has a key. Evict is tried again, and what an attempt whose answer was lost evicted is
  // then missing in the answer; EvictNext is tried once, and without an answer may have evicted.
  absl::StatusOr<Evicted> Evict(std::span<const BlockRef> blocks);
  absl::StatusOr<Evicted> EvictNext(uint32_t count);

  // Gives leases of a sequence back that is over, and which nobody is expected to go on with: what
  // that leaves cached is the first to be evicted. Ends the leases unless it is refused: without
  // an answer they may be given back, and the session may hold the references until it ends.
  // Errors: FAILED_PRECONDITION, a lease that has forks; INVALID_ARGUMENT, another session's.
  absl::Status Done(std::span<BlockLease> leases);

  // Ends leases once `event` is done, an event as PublishAfter's that was recorded after the last
  // use of their blocks and must live until then, or until the session is closed. Returns at once;
  // a thread of the session's waits, for one event after the other. The leases have not ended
  // before: Flush and Alloc do not wait for them. Where the event fails, the device is lost, and
  // what is on it may be written to still: SessionOptions::on_release_failure is told, and the
  // session holds the references until it ends.
  // Errors: FAILED_PRECONDITION, as PublishAfter; `leases` is untouched then.
  absl::Status ReleaseAfter(void* event, std::vector<BlockLease>&& leases);

  // Waits until every lease that ended before is given back: `leases.clear()` and Flush release
  // many in few calls. Returns the first failure to give one back since the last Flush.
  absl::Status Flush();

  // Fills blocks that the session holds with kZero or kPoison. Errors: FAILED_PRECONDITION,
  // NOT_HELD, SEALED or CLAIMED; INVALID_ARGUMENT, another fill.
  absl::Status FillBlocks(std::span<const BlockRef> blocks, Fill fill);

  // Copies whole blocks, source i to destination i, all held by the session. Errors:
  // INVALID_ARGUMENT, unequal counts, a destination listed twice or also a source;
  // FAILED_PRECONDITION, NOT_HELD, SEALED or CLAIMED.
  absl::Status CopyBlocks(std::span<const BlockRef> sources, std::span<const BlockRef> targets);

  // Reads blocks of one shard through the daemon: `sink` gets pieces in order of blocks, layers,
  // K before V, whose data lives for its call; a status of its own ends the reading and is
  // returned. `layers` empty: all. Not tried again once a piece has come.
  // Errors: FAILED_PRECONDITION, NOT_HELD; ABORTED, a block let go meanwhile.
  absl::Status ReadBlocks(std::span<const BlockRef> blocks, std::span<const uint32_t> layers,
                          uint32_t shard, absl::FunctionRef<absl::Status(const BlockPiece&)> sink);

  // Writes pieces of any size through the daemon. After an error some may be written.
  // Errors: FAILED_PRECONDITION, NOT_HELD, SEALED or CLAIMED; OUT_OF_RANGE, past a side's end.
  absl::Status WriteBlocks(std::span<const BlockPiece> pieces);

  // Maps one shard. This process becomes one of the session's. Memory on a GPU is opened in the
  // primary context of the device, once for all mappings of it; that kReadOnly is kept to is then
  // the caller's to see to. Errors: INVALID_ARGUMENT, no such shard; UNIMPLEMENTED, a kind of
  // device that is not known here; FAILED_PRECONDITION, memory on the host that is not sealed or
  // not of the size that was told, or memory on a GPU that is smaller; PID_COLLISION, the daemon
  // has this process's pid; DEVICE, the GPU is not visible here, or what to do about it; INTERNAL,
  // an answer that makes no sense; UNAVAILABLE, no fd socket.
  absl::StatusOr<Mapping> Map(uint32_t shard = 0,
                              Mapping::Access access = Mapping::Access::kReadWrite);

  // A secret of the tenant: what another process joins by.
  const SessionId& id() const;
  const PoolLayout& layout() const;
  const Limits& limits() const;

 private:
  friend class SessionOpener;
  explicit Session(std::shared_ptr<SessionCore> core);

  // The blocks that `leases` name, for AllocOptions::release.
  absl::StatusOr<std::vector<BlockRef>> CheckRelease(std::span<const BlockLease> leases) const;
  // Empties the leases that a call was to give back and which ended with `status`, unless that says
  // that it has not.
  void EndReleased(std::span<BlockLease> leases, const absl::Status& status) const;
  // A lease on each, the daemon having counted a reference.
  std::vector<BlockLease> MakeLeases(std::span<const BlockRef> refs) const;

  std::shared_ptr<SessionCore> core_;
};

}  // namespace kvpool::client
