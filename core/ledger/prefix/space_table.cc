#include "core/ledger/prefix/space_table.h"

#include "core/check.h"

namespace kvpool {

SpaceSlot SpaceTable::AddEntry(const SpaceNames& names, uint64_t epoch) {
  uint32_t slot =
      spaces_.Find(names.root, [epoch](const Space& space) { return space.epoch == epoch; });
  if (slot == spaces_.kNone) {
    slot = spaces_.Add();
    Space& space = spaces_[slot];
    space.key = names.root;
    space.label =
        &*labels_.try_emplace({std::string(names.model_id), std::string(names.adapter)}, 0).first;
    ++space.label->second;
    space.epoch = epoch;
    space.tenant = names.tenant;
    spaces_.List(slot);
  }
  KVPOOL_CHECK(spaces_[slot].tenant == names.tenant);
  ++spaces_[slot].entry_count;
  return SpaceSlot{slot};
}

void SpaceTable::DropEntry(SpaceSlot space) {
  const uint32_t slot = ToIndex(space);
  KVPOOL_CHECK(spaces_[slot].entry_count > 0);
  if (--spaces_[slot].entry_count > 0) return;
  Labels::value_type* const label = spaces_[slot].label;
  if (--label->second == 0) labels_.erase(labels_.find(label->first));
  spaces_.Unlist(slot);
  spaces_.Drop(slot);
}

}  // namespace kvpool
