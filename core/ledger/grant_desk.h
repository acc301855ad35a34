#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"

#include "core/ledger/allowance.h"
#include "core/ledger/evictor.h"
#include "core/ledger/keyed_calls.h"
#include "core/ledger/pin_desk.h"
#include "core/ledger/state.h"

namespace kvpool {

// What an Alloc asks for, waiting or not.
struct Demand {
  uint32_t count = 0;
  Fill fill{};
  std::span<const BlockRef> release{};
  const PrefixKeys* prefix = nullptr;
  uint32_t max_new_blocks = 0;
  uint64_t key = 0;
  uint64_t request = 0;
};

// What a demand comes to: the findable blocks, and how many new ones.
struct Grant {
  std::vector<BlockId> found;
  AddEffect effect;  // Of adding references to these.
  uint32_t new_count = 0;

  // How many of the free and cached blocks that takes.
  uint32_t taken() const { return effect.cached + new_count; }
};

// GrantDesk gives sessions what was judged possible: at once, or after a fill.
class GrantDesk {
 public:
  // The arguments must outlive it.
  GrantDesk(LedgerState& state, KeyedCalls& keys, PinDesk& pins)
      : state_(state), keys_(keys), pins_(pins) {}

  GrantDesk(const GrantDesk&) = delete;
  GrantDesk& operator=(const GrantDesk&) = delete;

  // Finds the demand's prefix. Errors: LIMIT.
  absl::StatusOr<Grant> Plan(const Session& session, const Demand& demand) const;

  // Bounds of what Plan would take, by a few looks however long the prefix is. Absent where Plan
  // may fail.
  std::optional<TakenBounds> BoundTaken(const Demand& demand) const;

  // Does what was judged possible. `id` is 0 where nobody waits for the answer yet; the outcome
  // is pending where blocks are to be filled.
  AllocOutcome Give(Session& session, const Demand& demand, const Grant& grant, PendingId id,
                    TimePoint now);
  void FillDone(PendingId id, const absl::Status& status, TimePoint now);
  // The call is not pending any more.
  void Forget(Session& session, PendingId id, uint64_t key, TimePoint now);

 private:
  AllocOutcome BeginFill(Session& session, const Demand& demand, FillPlan plan, AllocAnswer answer,
                         PendingId id);

  LedgerState& state_;
  KeyedCalls& keys_;
  PinDesk& pins_;
  Evictor evictor_{state_.references};
  const Allowance allowance_{state_};
};

}  // namespace kvpool
