#pragma once

#include <cstdint>

namespace kvpool {

// Places in the ledger's own tables. Unlike ids they are reused, and never leave the ledger.

enum class SessionSlot : uint32_t {};
enum class TenantSlot : uint32_t {};
enum class HolderSlot : uint32_t {};

inline constexpr SessionSlot kNoSession{UINT32_MAX};
inline constexpr TenantSlot kNoTenant{UINT32_MAX};
inline constexpr HolderSlot kNoHolder{UINT32_MAX};

constexpr uint32_t ToIndex(SessionSlot slot) { return static_cast<uint32_t>(slot); }
constexpr uint32_t ToIndex(TenantSlot slot) { return static_cast<uint32_t>(slot); }
constexpr uint32_t ToIndex(HolderSlot slot) { return static_cast<uint32_t>(slot); }

}  // namespace kvpool
