#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

#include "core/ledger/cache_calls.h"
#include "core/ledger/calls.h"
#include "core/ledger/state.h"

namespace kvpool {

// KeyedCalls answers repeated calls from what the session's first ones were answered.
class KeyedCalls {
 public:
  // `state` must outlive it.
  explicit KeyedCalls(LedgerState& state) : state_(state) {}

  KeyedCalls(const KeyedCalls&) = delete;
  KeyedCalls& operator=(const KeyedCalls&) = delete;

  // Equal for equal requests; what differs in any field but the caller differs.
  static uint64_t Hash(const AllocCall& call);
  static uint64_t Hash(const IncRefCall& call);
  static uint64_t Hash(const DecRefCall& call);
  static uint64_t Hash(const PublishCall& call);
  static uint64_t Hash(const LookupCall& call);

  // The remembered answer; null where the key is 0, not known, or that of this very request, still
  // pending.
  // Errors: INVALID_ARGUMENT, another request under the key, answered or pending;
  // FAILED_PRECONDITION, KEY_SPENT.
  absl::StatusOr<const KeyedAnswer*> Find(const Session& session, uint64_t key,
                                          uint64_t request) const;

  // Remembers the answer to a call that succeeded. Requires a key.
  void Remember(Session& session, uint64_t key, uint64_t request, KeyedAnswer answer);

 private:
  uint64_t PendingRequest(PendingId id) const;
  bool IsHeld(const Session& session, const BlockRef& ref) const;

  LedgerState& state_;
};

}  // namespace kvpool
