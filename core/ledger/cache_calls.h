#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"

#include "core/ids.h"
#include "core/ledger/calls.h"
#include "core/ledger/prefix/prefix_hasher.h"

namespace kvpool {

// The calls of the prefix cache and their answers, as those in calls.h. Prefixes are hashed with
// the session's tenant and model. Errors of all three: INVALID_ARGUMENT, the session has no model.

// Makes blocks findable, and seals them. An entry's errors do not depend on whether its prefix
// is findable already.
// Errors: INVALID_ARGUMENT, the prefix is not as long as `skip` and the blocks together, or a
// block is named twice; FAILED_PRECONDITION, PARENT_UNKNOWN, NOT_HELD, STALE_BLOCK, SEALED (under
// another prefix) or CLAIMED; ABORTED, BUSY: the daemon writes to it.
//
// `prefix` covers exactly the first `skip` blocks after its parent, which are findable, and then
// `blocks`, no block twice.
struct PublishCall {
  Caller caller;
  const PrefixKeys* prefix = nullptr;
  absl::string_view adapter{};  // The prefix's, for those who watch.
  uint32_t skip = 0;
  std::span<const BlockRef> blocks{};
  std::span<const uint32_t> tokens{};  // Of `blocks`, for those who watch; empty: not known.
  uint64_t idempotency_key = 0;
};

// Finds the longest findable prefix; with `acquire`, adds a reference to each of its blocks,
// which is a use of them. An unknown parent is a miss.
// Errors, with `acquire`: RESOURCE_EXHAUSTED, LIMIT or POOL_FULL, as IncRef's.
struct LookupCall {
  Caller caller;
  const PrefixKeys* prefix = nullptr;
  bool acquire = false;
  uint64_t idempotency_key = 0;
};

// Makes blocks unfindable: those listed, whoever of the tenant holds them, in an order in which
// each is a leaf; or up to `count` of the tenant's that nobody holds, in the policy's order.
// Errors: INVALID_ARGUMENT, a list and a count; PERMISSION_DENIED, another tenant's block;
// FAILED_PRECONDITION, STALE_BLOCK, or NOT_LEAF: it has findable children that are not listed.
struct EvictCall {
  Caller caller;
  uint32_t count = 0;
  std::span<const BlockRef> blocks{};
};

// What PublishAnswer says of a block that was not needed: another one is findable in its place.
struct Duplicate {
  uint32_t index = 0;  // Of the call's list.
  BlockRef known;

  bool operator==(const Duplicate&) const = default;
};

struct PublishAnswer {
  uint32_t published = 0;  // How many blocks became findable by it.
  std::vector<Duplicate> duplicates{};
  // Of the prefix's last block; of its parent, if any, where it has none.
  std::optional<PrefixKey> last_key{};

  bool operator==(const PublishAnswer&) const = default;
};

struct LookupAnswer {
  std::vector<BlockRef> blocks{};       // Generations filled in.
  std::optional<PrefixKey> last_key{};  // As AllocAnswer's.

  bool operator==(const LookupAnswer&) const = default;
};

struct EvictAnswer {
  std::vector<BlockId> blocks{};  // Not findable any more, in that order.
  uint32_t freed = 0;             // How many of them are free.
};

}  // namespace kvpool
