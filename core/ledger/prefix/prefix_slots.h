#pragma once

#include <cstdint>

namespace kvpool {

// Places in the prefix index. They are reused, and never leave the ledger.

enum class EntrySlot : uint32_t {};
enum class SpaceSlot : uint32_t {};
// A snapshot under way. Not reused.
enum class SnapshotId : uint64_t {};

inline constexpr EntrySlot kNoEntry{UINT32_MAX};
inline constexpr SpaceSlot kNoSpace{UINT32_MAX};

constexpr uint32_t ToIndex(EntrySlot slot) { return static_cast<uint32_t>(slot); }
constexpr uint32_t ToIndex(SpaceSlot slot) { return static_cast<uint32_t>(slot); }

}  // namespace kvpool
