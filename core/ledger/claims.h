#pragma once

#include <cstdint>

#include "core/ids.h"
#include "core/ledger/references.h"
#include "core/ledger/session_table.h"

namespace kvpool {

// Claims knows what a session that had joined another, its parent, claims since it ended: what the
// parent held then. While the parent holds such a block, all that is written down is when the
// session ended and what the parent has taken since: an end costs the same however many blocks
// there are. When the parent lets the block go, one claim is made on it, in the name of one of the
// sessions that have it; when that one's ends, it is handed on to the next.
class Claims {
 public:
  // Both must outlive it.
  Claims(SessionTable& sessions, References& references)
      : sessions_(sessions), references_(references) {}

  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

  // A member that ended, and is not vouched for, claims what its parent holds now.
  void Begin(Session& member);
  // It claims nothing more of what its parent still holds.
  void End(Session& member);

  // Whether an ended session claims the block, or will when references on it are dropped.
  bool IsClaimed(BlockId block) const;

  // Drops a reference of a live session; the block is then claimed by those who have a claim.
  BlockState Drop(Session& session, BlockId block, const Cause& cause) {
    if (!session.claimants.empty()) LetGo(session, block);
    return references_.Drop(session, block, cause);
  }
  // Ends the claim of `holder`, one of an ended session's, or hands it on.
  void EndClaim(Session& session, HolderSlot holder, const Cause& cause);

 private:
  void LetGo(Session& session, BlockId block);
  // Makes a claim that the parent's members have which ended after the first `since` of them, and
  // not after `member`.
  void Make(Session& member, BlockId block, uint64_t since);

  SessionTable& sessions_;
  References& references_;
};

}  // namespace kvpool
