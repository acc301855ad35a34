#include "core/ledger/evictor.h"

#include <optional>

#include "core/check.h"

namespace kvpool {

void Evictor::MakeRoom(TenantSlot tenant, uint32_t count, uint32_t quota, const Cause& cause) {
  const uint64_t may_use = quota == 0 ? UINT64_MAX : quota;
  while (uint64_t{references_.tenants().used_blocks(tenant)} + count > may_use) {
    Step(tenant, cause);
  }
  while (references_.blocks().free_count() < count) Step(kNoTenant, cause);
}

void Evictor::DropOld(TenantSlot tenant, uint32_t budget, const Cause& cause) {
  for (; budget > 0; --budget) {
    const std::optional<BlockId> block = references_.cache().TakeOld(tenant, cause.time);
    if (!block.has_value()) return;
    references_.ClearFindable(*block, cause);
  }
}

void Evictor::Step(TenantSlot tenant, const Cause& cause) {
  PrefixCache& cache = references_.cache();
  std::optional<BlockId> block = cache.TakeOld(tenant, cause.time);
  if (!block.has_value()) {
    block = cache.Choose(tenant, cause.time);
    if (!block.has_value()) block = cache.ChooseHeldLeaf(tenant);
    KVPOOL_CHECK(block.has_value());
    cache.Evict(*block, cause.time);
  }
  references_.ClearFindable(*block, cause);
}

}  // namespace kvpool
