#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/ledger/state.h"

namespace kvpool {

// Of the free and cached blocks that a call takes.
struct TakenBounds {
  uint32_t least = 0;
  uint32_t most = 0;
};

// Allowance settles what a session may take: the free and cached blocks, less what others are
// guaranteed, and nothing beyond its own guarantee while others wait before it.
class Allowance {
 public:
  // `state` must outlive it.
  explicit Allowance(const LedgerState& state) : state_(state) {}

  Allowance(const Allowance&) = delete;
  Allowance& operator=(const Allowance&) = delete;

  // What the session could take if it dropped what `effect` says, or shared as many more blocks
  // that others hold. `is_first`: nobody waits before it.
  uint32_t Room(const Session& session, const DropEffect& effect, bool is_first,
                uint32_t shared = 0) const;
  // What its tenant's quota leaves.
  uint32_t QuotaRoom(TenantSlot tenant, const DropEffect& effect) const;
  // How many blocks to give. Errors: RESOURCE_EXHAUSTED, POOL_FULL or QUOTA.
  absl::StatusOr<uint32_t> Judge(const Session& session, uint32_t count, bool allow_partial,
                                 const DropEffect& effect, bool is_first,
                                 uint32_t shared = 0) const;
  // Whether Judge would answer POOL_FULL. Makes no error, which takes longer than all the rest.
  bool IsFull(const Session& session, uint32_t count, const DropEffect& effect, bool is_first,
              uint32_t shared = 0) const;
  // The same for whatever is within bounds, where others hold what else it is to share.
  bool MustBeFull(const Session& session, const TakenBounds& taken, const DropEffect& effect,
                  bool is_first) const {
    // To share more never leaves more room.
    return taken.most <= QuotaRoom(session.tenant, effect) &&
           taken.least > Room(session, effect, is_first);
  }
  // Whether the session may add these references: nobody is guaranteed the cached ones.
  // Errors: POOL_FULL.
  absl::Status CheckAdd(const Session& session, const AddEffect& effect) const;
  // What the session could allocate now.
  uint32_t Available(const Session& session) const;

  // RESOURCE_EXHAUSTED, POOL_FULL: `room` could be had.
  static absl::Status FullError(uint32_t count, uint32_t room);

 private:
  const LedgerState& state_;
};

}  // namespace kvpool
