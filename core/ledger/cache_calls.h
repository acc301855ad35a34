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

// The calls of the prefix cache and their answers, as those in calls.h.

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

struct LookupCall {
  Caller caller;
  const PrefixKeys* prefix = nullptr;
  bool acquire = false;
  uint64_t idempotency_key = 0;
};

// Either a list of blocks or a count.
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
