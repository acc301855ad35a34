#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/container/flat_hash_map.h"

#include "core/ids.h"
#include "core/ledger/calls.h"
#include "core/ledger/events.h"
#include "core/ledger/holder_table.h"
#include "core/ledger/retry_table.h"
#include "core/ledger/slots.h"

namespace kvpool {

// What the ledger knows of a session, from OpenSession until nothing is left of it. SessionTable
// owns it; fields that only one class writes say which.
struct Session {
  // Who it is. Never changes.
  SessionId id;
  SessionSlot slot{};
  uint64_t serial = 0;  // Counts sessions opened: tells the older of two.
  TenantSlot tenant{};
  std::string client_name;
  std::string model_id;
  int64_t pid = 0;
  uint32_t uid = 0;
  TimePoint open_time;
  Duration ttl{};
  SessionId joined;                 // All zero: none.
  SessionSlot parent = kNoSession;  // The session joined, until nothing is left of that.

  // Its life.
  bool is_live = true;
  SessionEnd end_reason{};
  bool is_vouched = false;  // Ended, and what it leaves is not claimed (any more).
  std::optional<ProcessId> attached_to;
  uint32_t running_calls = 0;
  std::set<ProcessId> processes;  // Not yet gone.
  // Of those that joined it and are not vouched for, how many have a process.
  uint32_t members_alive = 0;
  bool counts_for_parent = false;  // Among the parent's `members_alive`.
  // When the latest of the processes that it claims for was gone.
  std::optional<TimePoint> last_gone;
  std::map<uint64_t, SessionSlot> members;  // By serial, until nothing is left of them.

  // What it holds. Written by References.
  uint32_t guarantee = 0;
  uint32_t held_blocks = 0;
  uint64_t references = 0;
  HolderList held;
  HolderList claims;

  // What waits in its name, by id.
  std::set<PendingId> pending;
  absl::flat_hash_map<uint64_t, PendingId> pending_keys;
  RetryTable retries;

  // Of those that joined it, ended and claim what it held then, by how many had ended. Written by
  // Claims.
  std::map<uint64_t, SessionSlot> claimants;
  uint64_t member_ends = 0;
  // Of what it has taken since the first of them ended: how many had ended by then. Written by
  // References.
  absl::flat_hash_map<HolderSlot, uint64_t> taken;
  // As one of a parent's claimants, for good: the parent's `member_ends` then. And of each of its
  // claims, above how many, unless that is 0, other claimants have it too.
  uint64_t claim_order = 0;
  absl::flat_hash_map<HolderSlot, uint64_t> claims_since;

  bool is_queued = false;  // Something is left to do after its end. Written by Reclaimer.

  bool is_joined() const { return joined != SessionId{}; }
  // Whether a process that it claims for, its own or a member's, is not gone.
  bool has_process() const { return !processes.empty() || members_alive > 0; }
  // Whether a member claims the block of `holder`, one of `held`, should it be let go.
  bool has_claim_of_member(HolderSlot holder) const {
    if (claimants.empty()) return false;
    const auto found = taken.find(holder);
    return found == taken.end() || found->second < claimants.rbegin()->first;
  }
  uint32_t unfilled() const { return guarantee > held_blocks ? guarantee - held_blocks : 0; }
};

}  // namespace kvpool
