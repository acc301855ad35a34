#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/node_hash_map.h"
#include "absl/strings/string_view.h"

#include "core/ledger/prefix/keyed_table.h"
#include "core/ledger/prefix/prefix_key.h"
#include "core/ledger/prefix/prefix_slots.h"
#include "core/ledger/slots.h"

namespace kvpool {

// What findable blocks are findable in, in the ledger's terms.
struct SpaceNames {
  PrefixKey root{};  // PrefixKeys::root.
  TenantSlot tenant = kNoTenant;
  absl::string_view model_id{};
  absl::string_view adapter{};
};

// SpaceTable knows the spaces that entries of the index are in: one a root key, so that a salt,
// which is a secret, is not kept. A space is there while it has entries. All its entries are of one
// epoch of its tenant: a reset begins the next, and with it another space of the same root.
//
// What it costs is bounded by its entries: 64 bytes a space and a bucket, and its names once for
// all spaces that share them, whatever their salts.
class SpaceTable {
 public:
  SpaceTable() = default;
  SpaceTable(const SpaceTable&) = delete;
  SpaceTable& operator=(const SpaceTable&) = delete;

  // The space of that root and epoch, made if need be, with an entry more. Requires that a root
  // has one tenant, model and adapter.
  SpaceSlot AddEntry(const SpaceNames& names, uint64_t epoch);
  // The same for a space that has entries already.
  void AddEntry(SpaceSlot space) { ++spaces_[ToIndex(space)].entry_count; }
  // A space without entries is forgotten.
  void DropEntry(SpaceSlot space);

  const PrefixKey& root(SpaceSlot space) const { return spaces_[ToIndex(space)].key; }
  TenantSlot tenant(SpaceSlot space) const { return spaces_[ToIndex(space)].tenant; }
  uint64_t epoch(SpaceSlot space) const { return spaces_[ToIndex(space)].epoch; }
  const std::string& model_id(SpaceSlot space) const { return label(space).first.first; }
  const std::string& adapter(SpaceSlot space) const { return label(space).first.second; }
  uint32_t entry_count(SpaceSlot space) const { return spaces_[ToIndex(space)].entry_count; }

  uint32_t size() const { return spaces_.listed_count(); }
  uint32_t label_count() const { return static_cast<uint32_t>(labels_.size()); }

 private:
  // A model and an adapter, and how many spaces have these names.
  using Labels = absl::node_hash_map<std::pair<std::string, std::string>, uint32_t>;

  struct Space {
    PrefixKey key;  // The root.
    uint32_t next_in_bucket = 0;
    TenantSlot tenant = kNoTenant;
    uint64_t epoch = 0;
    Labels::value_type* label = nullptr;
    uint32_t entry_count = 0;
  };

  const Labels::value_type& label(SpaceSlot space) const { return *spaces_[ToIndex(space)].label; }

  KeyedTable<Space> spaces_;
  Labels labels_;
};

}  // namespace kvpool
