#pragma once

#include <cstdint>
#include <vector>

#include "core/ledger/calls.h"
#include "core/ledger/events.h"
#include "core/ledger/status.h"

namespace kvpool::test {

// What a ledger did in one call, seen from outside.
struct Seen {
  std::vector<LedgerEvent> events;
  std::vector<BlockInfo> blocks;  // All of them, afterwards.
};

// What became of a pending Alloc that was served: its answer, or else the fills that it needs.
struct SeenGrant {
  const AllocAnswer* answer = nullptr;
  const FillNeeded* fill = nullptr;
};
SeenGrant FindGrant(PendingId id, const Seen& seen);

// Whether a pin that waited was granted, or a session forgotten.
bool IsPinGranted(PendingId id, const Seen& seen);
bool IsForgotten(const SessionId& id, const Seen& seen);
// Whether a grant, or the fills of one, names the block at the generation that it has.
bool IsNamedByAny(uint32_t block, const Seen& seen);
// How many references the session has to the block.
uint32_t SeenReferences(const BlockInfo& info, const SessionId& session);

}  // namespace kvpool::test
