#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/container/node_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"

#include "core/ids.h"
#include "core/ledger/eviction/paged_array.h"
#include "core/ledger/prefix/prefix_key.h"
#include "core/ledger/slots.h"

namespace kvpool {

// Whose the prefixes of a change are, and of what.
struct PrefixNames {
  std::string tenant;
  std::string model_id;
  std::string adapter;
};

// The same, of who keeps them.
struct PrefixNameViews {
  absl::string_view tenant{};
  absl::string_view model_id{};
  absl::string_view adapter{};

  bool operator==(const PrefixNameViews&) const = default;
  template <typename H>
  friend H AbslHashValue(H state, const PrefixNameViews& names) {
    return H::combine(std::move(state), names.tenant, names.model_id, names.adapter);
  }
};

// A block became findable, or unfindable; or all did, of a tenant or of every one.
struct PrefixChange {
  enum class Kind : uint8_t { kStored, kRemoved, kCleared };

  Kind kind{};
  PrefixKey key{};
  std::optional<PrefixKey> parent{};   // Of a stored one; none at the start of a sequence.
  BlockRef block{};                    // Of a stored one.
  TenantSlot tenant = kNoTenant;       // kNoTenant: every tenant's.
  const PrefixNames* names = nullptr;  // Of one that is cleared, only the tenant's.
  // The block's tokens, where they are known.
  std::unique_ptr<uint32_t[]> tokens{};
  uint32_t token_count = 0;

  std::span<const uint32_t> token_span() const { return {tokens.get(), token_count}; }
};

// PrefixLog is the latest changes to what is findable in a pool, numbered in the order in which
// they happened: a ring, in which those who watch have a place each.
//
// It costs 128 bytes a change at most, made a page at a time as changes come, and as much again
// for the tokens and names of the changes that it has: where these come to more, the oldest
// changes go before their turn. Not thread-safe: Pool holds its mutex around every call.
class PrefixLog {
 public:
  static constexpr size_t kBytesAChange = 128;

  // Keeps `capacity` changes, numbered from `before_first` + 1 on. Requires capacity > 0.
  PrefixLog(uint32_t capacity, uint64_t before_first);

  PrefixLog(const PrefixLog&) = delete;
  PrefixLog& operator=(const PrefixLog&) = delete;

  // The change's names and tokens are copies that the log has.
  void Add(PrefixChange change, const PrefixNameViews& names,
           std::span<const uint32_t> tokens = {});

  // The numbers that it has. `first` is last() + 1 where there are none.
  uint64_t first() const { return first_; }
  uint64_t last() const { return last_; }
  // Requires first() <= number <= last().
  const PrefixChange& at(uint64_t number) const { return ring_[Place(number)]; }

  // What its tokens and names take.
  size_t held_bytes() const { return held_bytes_; }

 private:
  static PrefixNameViews ViewsOf(const PrefixNames& names) {
    return {.tenant = names.tenant, .model_id = names.model_id, .adapter = names.adapter};
  }
  static PrefixNameViews ViewsOf(const PrefixNameViews& names) { return names; }

  // Found by views, without a copy.
  struct HashNames {
    using is_transparent = void;
    template <typename Names>
    size_t operator()(const Names& names) const {
      return absl::HashOf(ViewsOf(names));
    }
  };
  struct SameNames {
    using is_transparent = void;
    template <typename Names, typename OtherNames>
    bool operator()(const Names& names, const OtherNames& others) const {
      return ViewsOf(names) == ViewsOf(others);
    }
  };
  // Names, and how many changes have them.
  using NameTable = absl::node_hash_map<PrefixNames, uint32_t, HashNames, SameNames>;

  size_t Place(uint64_t number) const { return static_cast<size_t>(number % capacity_); }
  void DropFirst();
  const PrefixNames* AddNames(const PrefixNameViews& names);
  void DropNames(const PrefixNames* names);

  const uint32_t capacity_;
  const size_t max_held_bytes_;
  uint64_t last_;
  uint64_t first_;
  PagedArray<PrefixChange, 256> ring_;
  NameTable names_;
  NameTable::value_type* latest_names_ = nullptr;  // Of the change added last.
  size_t held_bytes_ = 0;
};
static_assert(sizeof(PrefixChange) <= PrefixLog::kBytesAChange);

}  // namespace kvpool
