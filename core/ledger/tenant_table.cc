#include "core/ledger/tenant_table.h"

#include "core/check.h"

namespace kvpool {

TenantSlot TenantTable::AddSession(absl::string_view name) {
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) {
    ++entries_[ToIndex(found->second)].sessions;
    return found->second;
  }
  TenantSlot tenant{static_cast<uint32_t>(entries_.size())};
  if (!unused_.empty()) {
    tenant = unused_.back();
    unused_.pop_back();
  } else {
    entries_.emplace_back();
  }
  entries_[ToIndex(tenant)] = {.name = std::string(name), .sessions = 1};
  by_name_.emplace(std::string(name), tenant);
  return tenant;
}

void TenantTable::DropSession(TenantSlot tenant) {
  Entry& entry = entries_[ToIndex(tenant)];
  KVPOOL_CHECK(entry.sessions > 0);
  --entry.sessions;
  ForgetIfUnused(tenant);
}

void TenantTable::TakeBlock(TenantSlot tenant, TenantSlot last) {
  Entry& entry = entries_[ToIndex(tenant)];
  ++entry.used_blocks;
  if (last == tenant) return;
  ++entry.known_blocks;
  if (last == kNoTenant) return;
  --entries_[ToIndex(last)].known_blocks;
  ForgetIfUnused(last);
}

const std::string& TenantTable::name(TenantSlot tenant) const {
  static const std::string& empty = *new std::string();
  return tenant == kNoTenant ? empty : entries_[ToIndex(tenant)].name;
}

void TenantTable::ForgetIfUnused(TenantSlot tenant) {
  Entry& entry = entries_[ToIndex(tenant)];
  if (entry.sessions > 0 || entry.known_blocks > 0) return;
  by_name_.erase(entry.name);
  entry = Entry{};
  unused_.push_back(tenant);
}

}  // namespace kvpool
