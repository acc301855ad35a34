#include <vector>

#include "core/ledger/prefix/prefix_index.h"
#include "tests/support/catch.h"
#include "tests/unit/prefix/prefix_test_keys.h"

namespace kvpool {
namespace {

using test::KeyOf;

constexpr size_t kManySteps = 1'000;

SpaceNames SpaceOf(uint32_t tenant) {
  return {.root = KeyOf(1'000 + tenant), .tenant = TenantSlot{tenant}, .model_id = "model"};
}

// A block at the start of a sequence; its key has the block's number.
EntrySlot InsertBlock(PrefixIndex& index, uint32_t tenant, uint32_t block) {
  return index.InsertFirst(KeyOf(block), BlockId{block}, SpaceOf(tenant)).entry;
}

// The blocks that come in at most that many steps.
std::vector<uint32_t> Read(PrefixIndex& index, SnapshotId id, size_t max_steps) {
  std::vector<EntrySlot> entries;
  const bool has_more = index.ReadSnapshot(id, max_steps, entries);
  if (max_steps == kManySteps) CHECK_FALSE(has_more);
  std::vector<uint32_t> blocks;
  for (const EntrySlot slot : entries) blocks.push_back(ToIndex(index.at(slot).block));
  CHECK(index.CheckInvariants().ok());
  return blocks;
}

using Blocks = std::vector<uint32_t>;

TEST_CASE("A snapshot of an empty index ends at once") {
  PrefixIndex index;
  const SnapshotId all = index.OpenSnapshotOfAll();
  const SnapshotId one = index.OpenSnapshot(TenantSlot{4});
  CHECK(Read(index, all, kManySteps).empty());
  CHECK(Read(index, one, kManySteps).empty());
  index.CloseSnapshot(all);
  index.CloseSnapshot(one);
}

TEST_CASE("A snapshot gives every entry once, parents first, a few at a time") {
  PrefixIndex index;
  const EntrySlot spare = InsertBlock(index, 1, 9);
  const EntrySlot parent = InsertBlock(index, 1, 1);
  index.Remove(spare);
  index.Forget(BlockId{9});
  // Takes the slot before its parent's.
  index.Insert(KeyOf(2), BlockId{2}, parent);
  index.Insert(KeyOf(3), BlockId{3}, parent);
  const SnapshotId id = index.OpenSnapshot(TenantSlot{1});
  CHECK(Read(index, id, 0).empty());
  CHECK(Read(index, id, 2) == Blocks{1, 2});
  CHECK(Read(index, id, 2) == Blocks{3});
  CHECK(Read(index, id, kManySteps).empty());
  index.CloseSnapshot(id);
}

TEST_CASE("A tenant's snapshot has its own entries, and one of all has everybody's") {
  PrefixIndex index;
  InsertBlock(index, 3, 30);
  InsertBlock(index, 0, 1);
  InsertBlock(index, 3, 31);
  const SnapshotId own = index.OpenSnapshot(TenantSlot{3});
  const SnapshotId all = index.OpenSnapshotOfAll();
  CHECK(Read(index, own, kManySteps) == Blocks{30, 31});
  CHECK(Read(index, all, kManySteps) == Blocks{1, 30, 31});
}

TEST_CASE("A snapshot comes to what is inserted before it has been through") {
  PrefixIndex index;
  InsertBlock(index, 1, 1);
  InsertBlock(index, 1, 2);
  const SnapshotId id = index.OpenSnapshot(TenantSlot{1});
  CHECK(Read(index, id, 1) == Blocks{1});
  InsertBlock(index, 1, 3);
  CHECK(index.WillCome(id, TenantSlot{1}));
  CHECK_FALSE(index.WillCome(id, TenantSlot{2}));
  CHECK(Read(index, id, kManySteps) == Blocks{2, 3});
  InsertBlock(index, 1, 4);
  CHECK_FALSE(index.WillCome(id, TenantSlot{1}));
  CHECK(Read(index, id, kManySteps).empty());
}

TEST_CASE("A snapshot of all comes to tenants that are new, and not to those behind it") {
  PrefixIndex index;
  InsertBlock(index, 1, 10);
  InsertBlock(index, 2, 20);
  const SnapshotId id = index.OpenSnapshotOfAll();
  CHECK(index.WillCome(id, TenantSlot{3}));
  CHECK(Read(index, id, 4) == Blocks{10, 20});
  CHECK_FALSE(index.WillCome(id, TenantSlot{1}));
  InsertBlock(index, 1, 11);
  InsertBlock(index, 3, 30);
  CHECK(Read(index, id, kManySteps) == Blocks{30});
  CHECK_FALSE(index.WillCome(id, TenantSlot{3}));
}

TEST_CASE("A snapshot goes on when entries before, at and after its place are removed") {
  for (const uint32_t removed : {1U, 2U, 3U, 4U}) {
    CAPTURE(removed);
    PrefixIndex index;
    std::vector<EntrySlot> slots;
    for (uint32_t block = 0; block < 5; ++block) slots.push_back(InsertBlock(index, 1, block));
    const SnapshotId id = index.OpenSnapshot(TenantSlot{1});
    const SnapshotId other = index.OpenSnapshot(TenantSlot{1});
    CHECK(Read(index, id, 2) == Blocks{0, 1});
    index.Remove(slots[removed]);
    CHECK(index.CheckInvariants().ok());
    Blocks rest = {2, 3, 4};
    std::erase(rest, removed);
    CHECK(Read(index, id, kManySteps) == rest);
    Blocks all = {0, 1, 2, 3, 4};
    std::erase(all, removed);
    CHECK(Read(index, other, kManySteps) == all);
  }
}

TEST_CASE("A snapshot goes on when all before and after its place is removed") {
  PrefixIndex index;
  const EntrySlot first = InsertBlock(index, 1, 1);
  const EntrySlot second = InsertBlock(index, 1, 2);
  const SnapshotId id = index.OpenSnapshot(TenantSlot{1});
  CHECK(Read(index, id, 1) == Blocks{1});
  index.Remove(second);
  index.Remove(first);
  CHECK(index.CheckInvariants().ok());
  InsertBlock(index, 1, 3);
  CHECK(Read(index, id, kManySteps) == Blocks{3});
}

TEST_CASE("A snapshot gives nothing old, and goes on with the tenants that were not reset") {
  PrefixIndex index;
  for (const uint32_t block : {1U, 2U, 3U}) InsertBlock(index, 1, block);
  InsertBlock(index, 2, 20);
  const SnapshotId all = index.OpenSnapshotOfAll();
  const SnapshotId own = index.OpenSnapshot(TenantSlot{1});
  CHECK(Read(index, all, 2) == Blocks{1});
  index.Reset(TenantSlot{1});
  CHECK(index.CheckInvariants().ok());
  InsertBlock(index, 1, 4);
  CHECK(Read(index, own, kManySteps) == Blocks{4});
  CHECK(Read(index, all, kManySteps) == Blocks{4, 20});
}

TEST_CASE("A snapshot that is closed half-way leaves the index as it is") {
  PrefixIndex index;
  const EntrySlot first = InsertBlock(index, 1, 1);
  InsertBlock(index, 1, 2);
  const SnapshotId id = index.OpenSnapshot(TenantSlot{1});
  index.CloseSnapshot(id);
  index.Remove(first);
  CHECK(index.findable_count() == 1);
  CHECK(index.CheckInvariants().ok());
}

}  // namespace
}  // namespace kvpool
