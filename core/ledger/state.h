#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "core/ledger/calls.h"
#include "core/ledger/claims.h"
#include "core/ledger/events.h"
#include "core/ledger/guaranteed_calls.h"
#include "core/ledger/options.h"
#include "core/ledger/pin_table.h"
#include "core/ledger/references.h"
#include "core/ledger/session_table.h"
#include "core/ledger/tenant_table.h"
#include "core/ledger/wait_queues.h"

namespace kvpool {

// An Alloc whose blocks, taken and pinned, are being filled.
struct PendingFill {
  SessionId session;
  PendingId answer_to{};  // Whom to answer: a repeat of the call may have taken its place.
  AllocAnswer answer;
  uint64_t key = 0;
  uint64_t request = 0;
  std::vector<BlockId> filled;
};

// A pin that waits or is granted.
struct PinEntry {
  SessionId session;  // The caller.
  SessionId write_session;
  std::vector<BlockRef> reads;  // As called, but with generations.
  std::vector<BlockRef> writes;
};

// All that a ledger knows. The desks, each a part of Ledger's operations, share it.
struct LedgerState {
  explicit LedgerState(const LedgerOptions& the_options)
      : options(the_options), references(the_options, tenants), sessions(tenants) {}

  LedgerState(const LedgerState&) = delete;
  LedgerState& operator=(const LedgerState&) = delete;

  PendingId NextPending() { return PendingId{++last_pending}; }

  const LedgerOptions options;
  TenantTable tenants;
  References references;
  SessionTable sessions;
  Claims claims{sessions, references};
  WaitQueues waits;
  GuaranteedCalls guaranteed_waits;  // Those of `waits` whose sessions have guarantees.
  PinTable pin_table;
  absl::flat_hash_map<PendingId, PinEntry> pins;
  absl::flat_hash_map<PendingId, PendingFill> fills;
  std::vector<LedgerEvent> events;
  uint64_t last_pending = 0;
};

}  // namespace kvpool
