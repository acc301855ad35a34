#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

#include "core/ledger/slots.h"

namespace kvpool {

// TenantTable gives tenants small numbers and counts the blocks of each.
//
// A tenant is known while it has a session, or a block that it has or had last: what it costs is
// bounded by sessions and blocks, however many tenants come and go.
class TenantTable {
 public:
  TenantTable() = default;
  TenantTable(const TenantTable&) = delete;
  TenantTable& operator=(const TenantTable&) = delete;

  // For a session of that tenant. Each is followed by one DropSession.
  TenantSlot AddSession(absl::string_view name);
  void DropSession(TenantSlot tenant);

  // kNoTenant where no tenant of that name is known.
  TenantSlot Find(absl::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? kNoTenant : found->second;
  }

  // A free block whose tenant was `last` (or kNoTenant) is the tenant's now.
  void TakeBlock(TenantSlot tenant, TenantSlot last);
  // A block of the tenant's is free again. It stays the one that had it last.
  void FreeBlock(TenantSlot tenant) { --entries_[ToIndex(tenant)].used_blocks; }
  // A used block of the tenant's is cached now, or no more.
  void CacheBlock(TenantSlot tenant) { ++entries_[ToIndex(tenant)].cached_blocks; }
  void HoldBlock(TenantSlot tenant) { --entries_[ToIndex(tenant)].cached_blocks; }

  // Empty for kNoTenant.
  const std::string& name(TenantSlot tenant) const;
  // Blocks held, cached or quarantined; and those of them that are cached.
  uint32_t used_blocks(TenantSlot tenant) const { return entries_[ToIndex(tenant)].used_blocks; }
  uint32_t cached_blocks(TenantSlot tenant) const {
    return entries_[ToIndex(tenant)].cached_blocks;
  }
  uint32_t size() const { return static_cast<uint32_t>(by_name_.size()); }

 private:
  struct Entry {
    std::string name;
    uint32_t sessions = 0;
    uint32_t used_blocks = 0;
    uint32_t cached_blocks = 0;
    uint32_t known_blocks = 0;  // Used, or free and its last.
  };

  void ForgetIfUnused(TenantSlot tenant);

  std::vector<Entry> entries_;
  std::vector<TenantSlot> unused_;
  absl::flat_hash_map<std::string, TenantSlot> by_name_;
};

}  // namespace kvpool
