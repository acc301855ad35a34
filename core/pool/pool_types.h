#pragma once

#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"

#include "core/ids.h"
#include "core/layout/pool_layout.h"
#include "core/ledger/calls.h"
#include "core/ledger/ledger.h"
#include "core/memory/checksum.h"
#include "core/memory/memory.h"

namespace kvpool {

// The values that a Pool takes and gives, and whom it tells.

// What a pool tells of its sessions. Called without the pool's mutex, on any thread, in the order
// in which things happened to one session; must not block.
class PoolObserver {
 public:
  virtual ~PoolObserver() = default;
  virtual void OnSessionEnded(const SessionId& session, SessionEnd reason) = 0;
  virtual void OnSessionForgotten(const SessionId& session) = 0;
  virtual void OnMemberGone(const SessionId& session) = 0;
};

struct PoolOptions {
  PoolLayout layout;
  LedgerLimits limits;
  bool trace = false;
  Duration claim_grace{};
  // As LedgerOptions'. Above every generation of pools that were there before, a dead daemon's too:
  // else what names a block of theirs could name one of this pool.
  uint64_t before_first_generation = 0;
};

// Bytes of a block on their way to or from a client.
struct BlockPiece {
  PieceRange range;
  std::string data;
};

// Reads blocks piece by piece.
class PieceReader {
 public:
  virtual ~PieceReader() = default;
  // Reads the next piece; an absent one is the end. One call at a time. ABORTED where a block was
  // let go (or let go and taken again) meanwhile.
  virtual void Next(absl::AnyInvocable<void(absl::StatusOr<std::optional<BlockPiece>>)> done) = 0;
};

struct LayerChecksum {
  SideChecksum prefix_k, prefix_v, suffix_k, suffix_v;
};

struct BlockChecksum {
  SideChecksum k, v;
};

}  // namespace kvpool
