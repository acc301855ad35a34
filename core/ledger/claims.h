#pragma once

#include "core/ids.h"
#include "core/ledger/state.h"

namespace kvpool {

// Who claims what, as of a session's end, though claims are made in slices after it.

// Whether a member, which ended, is to claim the block of `holder`, one of `parent`'s: `parent`
// has held it since before that end, and not all such claims are made yet.
bool IsToClaim(const Session& member, const Session& parent, HolderSlot holder);

// Whether a session that ended claims the block, or is to claim it.
bool IsClaimed(const LedgerState& state, BlockId block);

}  // namespace kvpool
