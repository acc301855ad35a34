#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"

#include "core/ledger/state.h"

namespace kvpool {

// PinDesk begins and ends the pins of byte operations.
class PinDesk {
 public:
  // `state` must outlive it.
  explicit PinDesk(LedgerState& state) : state_(state) {}

  PinDesk(const PinDesk&) = delete;
  PinDesk& operator=(const PinDesk&) = delete;

  absl::StatusOr<PinOutcome> Pin(Session& session, const PinCall& call);
  void Unpin(PendingId id, TimePoint now);
  // Withdraws a waiting pin. False where no such pin waits.
  bool Cancel(PendingId id, TimePoint now);
  // Ends a waiting pin whose session ended: its PinDone says `status`.
  void Abandon(PendingId id, const absl::Status& status, TimePoint now);

  // Pins blocks just taken, at once, for their fill; EndFill ends that.
  void BeginFill(PendingId id, std::span<const BlockId> blocks);
  void EndFill(PendingId id, const SessionId& session, TimePoint now);

 private:
  absl::StatusOr<const Session*> FindWriter(const PinCall& call) const;
  // Whether the blocks may be pinned now.
  absl::Status Check(const Session& session, const Session& writer, std::span<const BlockRef> reads,
                     std::span<const BlockRef> writes) const;
  absl::Status Recheck(const PinEntry& entry) const;
  std::vector<BlockRef> WithGenerations(std::span<const BlockRef> refs) const;
  void Grant(PendingId id);
  // What follows from a pin's end: blocks unpinned, and others' turn.
  void Settle(const PinTable::Removed& removed, const Cause& cause);

  LedgerState& state_;
};

}  // namespace kvpool
