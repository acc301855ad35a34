#pragma once

#include <array>
#include <cstdint>

#include "core/ids.h"
#include "core/ledger/eviction/paged_array.h"
#include "core/ledger/eviction/use_stamp.h"
#include "core/ledger/slots.h"

namespace kvpool {

inline constexpr BlockId kNoBlock{UINT32_MAX};

// The orders that candidates are kept in.
enum class CandidateOrder : uint8_t { kOfAll, kOfTenant };
inline constexpr size_t kCandidateOrderCount = 2;

// What candidates are kept apart by. A policy that makes no difference keeps all in the first.
// Held leaves, which are kept with them, are a group of their own.
enum class CandidateGroup : uint8_t { kSeenOnce, kSeenAgain, kDone, kHeldLeaf };
inline constexpr size_t kCandidateGroupCount = 4;

// Whether a block may be chosen, and for what.
enum class LeafKind : uint8_t { kNone, kCandidate, kHeldLeaf };

// A node's children in a tree of candidates.
struct TreeLinks {
  BlockId older = kNoBlock;
  BlockId younger = kNoBlock;
};

// What a policy knows of a block: 40 bytes, all tenants' order and its tenant's included.
struct BlockNote {
  UseStamp last_use{};
  uint64_t prefix = 0;
  std::array<TreeLinks, kCandidateOrderCount> links{};  // Of candidates, by CandidateOrder.
  TenantSlot tenant = kNoTenant;
  CandidateGroup group{};  // As a candidate.
  LeafKind kind{};
  bool is_known = false;
  bool is_seen_again = false;  // Used more than once, or evicted and computed anew.
};
static_assert(sizeof(BlockNote) == 40);

// By block; made where a block is findable for the first time.
using BlockNotes = PagedArray<BlockNote, 256>;

}  // namespace kvpool
