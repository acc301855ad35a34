#pragma once

#include "absl/status/status.h"

#include "core/ledger/state.h"

namespace kvpool {

// Recounts everything that a ledger knows from its smallest parts; INTERNAL names the first
// difference. Takes time linear in all of it.
absl::Status CheckLedger(const LedgerState& state);

}  // namespace kvpool
