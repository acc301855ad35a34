#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/ledger/allowance.h"
#include "core/ledger/cache_calls.h"
#include "core/ledger/calls.h"
#include "core/ledger/evictor.h"
#include "core/ledger/keyed_calls.h"
#include "core/ledger/state.h"

namespace kvpool {

// CacheDesk makes blocks findable, finds them, and makes them unfindable again.
class CacheDesk {
 public:
  // Both must outlive it.
  CacheDesk(LedgerState& state, KeyedCalls& keys) : state_(state), keys_(keys) {}

  CacheDesk(const CacheDesk&) = delete;
  CacheDesk& operator=(const CacheDesk&) = delete;

  // As Ledger's. Require ids in range.
  absl::StatusOr<PublishAnswer> Publish(Session& session, const PublishCall& call, TimePoint now);
  absl::StatusOr<LookupAnswer> Lookup(Session& session, const LookupCall& call, TimePoint now);
  absl::StatusOr<EvictAnswer> Evict(Session& session, const EvictCall& call, TimePoint now);
  uint32_t Reset(TenantSlot tenant, TimePoint now);

  // Gives up at most `budget` of the references that a reset left.
  void ReclaimOld(uint32_t budget, TimePoint now);
  bool has_old() const { return state_.references.cache().has_old(); }

 private:
  absl::Status CheckPublish(const Session& session, const PublishCall& call);
  absl::Status CheckEntry(const Session& session, const PublishCall& call, size_t index) const;
  absl::Status CheckEvict(const Session& session, std::span<const BlockRef> blocks);
  // Whether what `ref` names is findable, and still the same.
  bool IsFindable(const BlockRef& ref) const;
  EvictAnswer EvictListed(const Session& session, std::span<const BlockRef> blocks, TimePoint now);
  EvictAnswer EvictCount(const Session& session, uint32_t count, TimePoint now);

  LedgerState& state_;
  KeyedCalls& keys_;
  Evictor evictor_{state_.references};
  const Allowance allowance_{state_};
};

}  // namespace kvpool
