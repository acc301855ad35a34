#include <set>
#include <vector>

#include "core/ledger/prefix/prefix_index.h"
#include "tests/support/catch.h"
#include "tests/unit/prefix/prefix_test_keys.h"

namespace kvpool {
namespace {

using test::KeyOf;

SpaceNames SpaceOf(uint32_t tenant) {
  return {.root = KeyOf(1'000 + tenant), .tenant = TenantSlot{tenant}, .model_id = "model"};
}

// Publishes a chain of `count` blocks for that tenant; keys and blocks are numbered from `first`.
std::vector<EntrySlot> InsertChain(PrefixIndex& index, uint32_t tenant, uint32_t first,
                                   uint32_t count) {
  std::vector<EntrySlot> slots;
  for (uint32_t i = first; i < first + count; ++i) {
    slots.push_back(slots.empty() ? index.InsertFirst(KeyOf(i), BlockId{i}, SpaceOf(tenant)).entry
                                  : index.Insert(KeyOf(i), BlockId{i}, slots.back()).entry);
  }
  return slots;
}

TEST_CASE("After a reset nothing that was findable is found, and all of it is old") {
  PrefixIndex index;
  const std::vector<EntrySlot> slots = InsertChain(index, 1, 0, 4);
  CHECK(index.ResetAll() == 4);
  for (uint32_t i = 0; i < 4; ++i) {
    CHECK(index.Find(KeyOf(i)) == kNoEntry);
    CHECK(index.is_old(slots[i]));
    CHECK_FALSE(index.is_findable(slots[i]));
  }
  CHECK(index.findable_count() == 0);
  CHECK(index.old_count() == 4);
  CHECK(index.ResetAll() == 0);
  CHECK(index.old_count() == 4);
  CHECK(index.CheckInvariants().ok());
}

TEST_CASE("A reset of one tenant leaves the others' prefixes") {
  PrefixIndex index;
  InsertChain(index, 1, 0, 3);
  const std::vector<EntrySlot> others = InsertChain(index, 2, 10, 2);
  CHECK(index.Reset(TenantSlot{1}) == 3);
  CHECK(index.Reset(TenantSlot{7}) == 0);
  CHECK(index.Find(KeyOf(0)) == kNoEntry);
  CHECK(index.Find(KeyOf(11)) == others[1]);
  CHECK(index.findable_count() == 2);
  CHECK(index.findable_count(TenantSlot{1}) == 0);
  CHECK(index.findable_count(TenantSlot{2}) == 2);
  CHECK(index.CheckInvariants().ok());
}

TEST_CASE("Old entries are taken one by one, each once, and are remembered then") {
  PrefixIndex index;
  InsertChain(index, 1, 0, 3);
  InsertChain(index, 2, 10, 2);
  index.ResetAll();
  InsertChain(index, 1, 20, 2);
  std::set<EntrySlot> taken;
  for (EntrySlot slot = index.TakeOld(); slot != kNoEntry; slot = index.TakeOld()) {
    CHECK_FALSE(index.is_old(slot));
    CHECK_FALSE(index.is_findable(slot));
    CHECK(taken.insert(slot).second);
    CHECK(index.CheckInvariants().ok());
    if (taken.size() % 2 == 0) index.Forget(index.at(slot).block);
    CHECK(index.CheckInvariants().ok());
  }
  CHECK(index.old_count() == 0);
  CHECK(index.findable_count() == 2);
}

TEST_CASE("Old entries of one tenant can be taken before those of others") {
  PrefixIndex index;
  InsertChain(index, 1, 0, 3);
  InsertChain(index, 2, 10, 2);
  index.ResetAll();
  CHECK(ToIndex(index.at(index.TakeOld(TenantSlot{1})).block) < 3);
  CHECK(ToIndex(index.at(index.TakeOld(TenantSlot{2})).block) >= 10);
  CHECK(ToIndex(index.at(index.TakeOld(TenantSlot{2})).block) >= 10);
  CHECK(index.TakeOld(TenantSlot{2}) == kNoEntry);
  CHECK(index.TakeOld() != kNoEntry);
  CHECK(index.TakeOld() != kNoEntry);
  CHECK(index.TakeOld() == kNoEntry);
  CHECK(index.old_count() == 0);
}

TEST_CASE("What is published after a reset is found while the old is still there") {
  PrefixIndex index;
  InsertChain(index, 1, 0, 3);
  index.Reset(TenantSlot{1});
  // The same prefix, in other blocks.
  const EntrySlot first = index.InsertFirst(KeyOf(0), BlockId{50}, SpaceOf(1)).entry;
  const EntrySlot second = index.Insert(KeyOf(1), BlockId{51}, first).entry;
  CHECK(index.Find(KeyOf(0)) == first);
  CHECK(index.Find(KeyOf(1)) == second);
  CHECK(index.Find(KeyOf(2)) == kNoEntry);
  CHECK(index.findable_count() == 2);
  CHECK(index.old_count() == 3);
  CHECK(index.CheckInvariants().ok());
  while (index.TakeOld() != kNoEntry) CHECK(index.CheckInvariants().ok());
  CHECK(index.Find(KeyOf(1)) == second);
}

TEST_CASE("A block whose old entry is not taken yet can be published again under its key") {
  PrefixIndex index;
  InsertChain(index, 1, 0, 3);
  index.Reset(TenantSlot{1});
  const InsertResult first = index.InsertFirst(KeyOf(0), BlockId{0}, SpaceOf(1));
  CHECK(first.is_new);
  CHECK(index.Find(KeyOf(0)) == first.entry);
  CHECK(index.EntryOf(BlockId{0}) == first.entry);
  CHECK(index.old_count() == 2);
  CHECK(index.CheckInvariants().ok());
  CHECK(index.Insert(KeyOf(1), BlockId{1}, first.entry).parent_was_leaf);
  CHECK(index.old_count() == 1);
  CHECK(index.CheckInvariants().ok());
}

TEST_CASE("Any old entry can be removed, whatever its children, and no parent is told") {
  PrefixIndex index;
  const std::vector<EntrySlot> slots = InsertChain(index, 1, 0, 3);
  index.ResetAll();
  for (const uint32_t i : {0U, 2U, 1U}) {
    CHECK(index.Remove(slots[i]) == kNoEntry);
    index.Forget(BlockId{i});
    CHECK(index.CheckInvariants().ok());
  }
  CHECK(index.old_count() == 0);
}

TEST_CASE("Resets follow each other while there are old entries of several") {
  PrefixIndex index;
  for (uint32_t round = 0; round < 5; ++round) {
    InsertChain(index, 1, 0, 1);
    CHECK(index.Reset(TenantSlot{1}) == 1);
    index.InsertFirst(KeyOf(0), BlockId{100 + round}, SpaceOf(1));
    CHECK(index.ResetAll() == 1);
    CHECK(index.Find(KeyOf(0)) == kNoEntry);
    CHECK(index.CheckInvariants().ok());
  }
  CHECK(index.old_count() == 6);
  while (index.TakeOld() != kNoEntry) CHECK(index.CheckInvariants().ok());
}

}  // namespace
}  // namespace kvpool
