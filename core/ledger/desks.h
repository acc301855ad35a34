#pragma once

#include "core/ledger/alloc_desk.h"
#include "core/ledger/cache_desk.h"
#include "core/ledger/grant_desk.h"
#include "core/ledger/inspector.h"
#include "core/ledger/keyed_calls.h"
#include "core/ledger/options.h"
#include "core/ledger/pin_desk.h"
#include "core/ledger/prefix_watches.h"
#include "core/ledger/reclaimer.h"
#include "core/ledger/session_desk.h"
#include "core/ledger/state.h"

namespace kvpool {

// A ledger's state and the desks around it, in the order in which each needs the others.
struct LedgerDesks {
  explicit LedgerDesks(const LedgerOptions& options) : state(options) {}

  LedgerDesks(const LedgerDesks&) = delete;
  LedgerDesks& operator=(const LedgerDesks&) = delete;

  LedgerState state;
  KeyedCalls keys{state};
  Reclaimer reclaimer{state};
  PinDesk pins{state};
  GrantDesk grants{state, keys, pins};
  AllocDesk allocs{state, keys, reclaimer, grants};
  CacheDesk cache{state, keys};
  SessionDesk sessions{state, reclaimer, allocs, pins};
  PrefixWatches watches{state.references.cache(), state.tenants};
  Inspector inspector{state};
};

}  // namespace kvpool
