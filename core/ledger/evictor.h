#pragma once

#include <cstdint>

#include "core/ledger/block_trace.h"
#include "core/ledger/references.h"

namespace kvpool {

// Evictor makes room: it takes the cache's references to blocks away until enough are free.
class Evictor {
 public:
  // `references` must outlive it.
  explicit Evictor(References& references) : references_(references) {}

  Evictor(const Evictor&) = delete;
  Evictor& operator=(const Evictor&) = delete;

  // Makes it possible to take `count` free blocks for the tenant within `quota` (0: none). First
  // of the tenant's own, as far as the quota asks; then whichever goes next. Requires that free
  // and cached blocks suffice, and the tenant's cached ones for its quota.
  void MakeRoom(TenantSlot tenant, uint32_t count, uint32_t quota, const Cause& cause);

  // Gives up the references to at most `budget` old blocks (of that tenant, if one is given).
  void DropOld(TenantSlot tenant, uint32_t budget, const Cause& cause);

 private:
  // Lets one block go, or makes a held one unfindable, which is a step to that.
  void Step(TenantSlot tenant, const Cause& cause);

  References& references_;
};

}  // namespace kvpool
