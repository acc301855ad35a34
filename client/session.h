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
#include "client/mapping.h"
#include "client/options.h"
#include "core/ids.h"
#include "core/layout/pool_layout.h"

namespace kvpool::client {

class SessionCore;

struct AllocOptions {
  // Take what there is, down to none, instead of failing. Not with `wait`.
  bool allow_partial = false;
  // Wait for room up to that long. 0 and less: not at all.
  Duration wait{};
  // What the blocks then hold. kUnspecified: as the pool says.
  Fill fill = Fill::kUnspecified;
  // Given back in the same step, so that they can serve this call and nobody else. Emptied where
  // the call succeeds, untouched where it fails. Each must be the only fork of its reference.
  std::span<BlockLease> release = {};
};

enum class BlockSide : uint8_t { kK, kV };

// A run of bytes of one side of one block. `data` is its sender's or its receiver's.
struct BlockPiece {
  BlockId block{};
  uint32_t layer = 0;
  BlockSide side = BlockSide::kK;
  uint64_t offset_bytes = 0;  // In the side.
  std::span<const std::byte> data{};
  uint32_t shard = 0;
};

// A session in a pool: what this process holds its blocks by. Two threads of its own keep it
// attached and give back what ended leases held.
//
// Once it has ended (alive() says so), every call is NOT_FOUND, SESSION_UNKNOWN: open a new one;
// what was computed in its blocks since is void. Every call's common errors are those of
// BlockService in block.proto. Calls are tried again as RetryPolicy says, and have one effect.
// Thread-safe, but for destruction.
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

  // Maps one shard. This process becomes one of the session's. Errors: INVALID_ARGUMENT, no such
  // shard; UNIMPLEMENTED, memory that is not the host's; FAILED_PRECONDITION, memory that is not
  // sealed or not of the size that was told; UNAVAILABLE, no fd socket.
  absl::StatusOr<Mapping> Map(uint32_t shard = 0,
                              Mapping::Access access = Mapping::Access::kReadWrite);

  // A secret of the tenant: what another process joins by.
  const SessionId& id() const;
  const PoolLayout& layout() const;
  const Limits& limits() const;

 private:
  friend class Client;
  explicit Session(std::shared_ptr<SessionCore> core);

  // The blocks that `leases` name, for AllocOptions::release.
  absl::StatusOr<std::vector<BlockRef>> CheckRelease(std::span<const BlockLease> leases) const;
  // A lease on each, the daemon having counted a reference.
  std::vector<BlockLease> MakeLeases(std::span<const BlockRef> refs) const;

  std::shared_ptr<SessionCore> core_;
};

}  // namespace kvpool::client
