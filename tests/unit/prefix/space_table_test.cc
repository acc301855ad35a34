#include "core/ledger/prefix/space_table.h"

#include <string>

#include "tests/support/catch.h"
#include "tests/unit/prefix/prefix_test_keys.h"

namespace kvpool {
namespace {

SpaceNames Names(uint64_t root, absl::string_view adapter = "a") {
  return {
      .root = test::KeyOf(root), .tenant = TenantSlot{3}, .model_id = "model", .adapter = adapter};
}

TEST_CASE("SpaceTable gives the entries of one root and epoch one space") {
  SpaceTable spaces;
  const SpaceSlot space = spaces.AddEntry(Names(1), 5);
  CHECK(spaces.AddEntry(Names(1), 5) == space);
  spaces.AddEntry(space);
  CHECK(spaces.entry_count(space) == 3);
  CHECK(spaces.root(space) == test::KeyOf(1));
  CHECK(spaces.tenant(space) == TenantSlot{3});
  CHECK(spaces.epoch(space) == 5);
  CHECK(spaces.model_id(space) == "model");
  CHECK(spaces.adapter(space) == "a");
  CHECK(spaces.size() == 1);
}

TEST_CASE("SpaceTable has another space for another root, and for another epoch") {
  SpaceTable spaces;
  const SpaceSlot space = spaces.AddEntry(Names(1), 5);
  const SpaceSlot other_root = spaces.AddEntry(Names(2), 5);
  const SpaceSlot other_epoch = spaces.AddEntry(Names(1), 6);
  CHECK(space != other_root);
  CHECK(space != other_epoch);
  CHECK(spaces.AddEntry(Names(1), 5) == space);
  CHECK(spaces.size() == 3);
}

TEST_CASE("SpaceTable keeps a name once, while a space has it, and a space while it has entries") {
  SpaceTable spaces;
  const SpaceSlot first = spaces.AddEntry(Names(1), 0);
  const SpaceSlot second = spaces.AddEntry(Names(2), 0);
  const SpaceSlot other = spaces.AddEntry(Names(3, "b"), 0);
  CHECK(spaces.label_count() == 2);
  spaces.DropEntry(other);
  CHECK(spaces.size() == 2);
  CHECK(spaces.label_count() == 1);
  spaces.DropEntry(first);
  CHECK(spaces.adapter(second) == "a");
  spaces.DropEntry(second);
  CHECK(spaces.size() == 0);
  CHECK(spaces.label_count() == 0);
}

}  // namespace
}  // namespace kvpool
