#include "core/ledger/block_table.h"

#include "tests/support/catch.h"

namespace kvpool {
namespace {

TEST_CASE("BlockTable hands out 0, 1, 2 and so on, then the block freed last") {
  BlockTable table(/*num_blocks=*/4);
  CHECK(table.Take() == BlockId{0});
  CHECK(table.Take() == BlockId{1});
  CHECK(table.Take() == BlockId{2});

  CHECK(table.DropReferences(BlockId{0}, 1) == BlockState::kFree);
  CHECK(table.DropReferences(BlockId{2}, 1) == BlockState::kFree);
  CHECK(table.Take() == BlockId{2});
  CHECK(table.Take() == BlockId{0});
  CHECK(table.Take() == BlockId{3});
  CHECK(table.free_count() == 0);
}

TEST_CASE("BlockTable raises the generation each time that a block leaves FREE") {
  BlockTable table(/*num_blocks=*/1);
  CHECK(table.record(BlockId{0}).generation == 0);
  table.Take();
  CHECK(table.record(BlockId{0}).generation == 1);
  table.AddReference(BlockId{0});
  CHECK(table.DropReferences(BlockId{0}, 1) == BlockState::kHeld);
  CHECK(table.record(BlockId{0}).generation == 1);
  table.DropReferences(BlockId{0}, 1);
  CHECK(table.record(BlockId{0}).generation == 1);
  table.Take();
  CHECK(table.record(BlockId{0}).generation == 2);
}

TEST_CASE("BlockTable's generations begin after the one that it is given") {
  BlockTable table(/*num_blocks=*/2, /*before_first_generation=*/1'000);
  CHECK(table.record(BlockId{0}).generation == 0);
  table.Take();
  CHECK(table.record(BlockId{0}).generation == 1'001);
  CHECK(table.is_first_owner(BlockId{0}));
  table.DropReferences(BlockId{0}, 1);
  table.Take();
  CHECK(table.record(BlockId{0}).generation == 1'002);
  CHECK_FALSE(table.is_first_owner(BlockId{0}));
  CHECK(table.record(BlockId{1}).generation == 0);
}

TEST_CASE("BlockTable quarantines a block that loses its last reference while claimed") {
  BlockTable table(/*num_blocks=*/2);
  const BlockId block = table.Take();
  table.AddClaim(block);
  table.AddClaim(block);

  CHECK(table.DropReferences(block, 1) == BlockState::kQuarantined);
  CHECK(table.quarantined_count() == 1);
  CHECK(table.held_count() == 0);
  CHECK(table.DropClaim(block) == BlockState::kQuarantined);
  CHECK(table.DropClaim(block) == BlockState::kFree);
  CHECK(table.quarantined_count() == 0);
  CHECK(table.free_count() == 2);
}

TEST_CASE("BlockTable quarantines a block that loses its last reference while pinned") {
  BlockTable table(/*num_blocks=*/1);
  const BlockId block = table.Take();
  table.SetPinned(block);
  CHECK(table.DropReferences(block, 1) == BlockState::kQuarantined);
  CHECK(table.free_count() == 0);
  CHECK(table.ClearPinned(block) == BlockState::kFree);
}

TEST_CASE("BlockTable keeps a held block held when its claim or pin ends") {
  BlockTable table(/*num_blocks=*/1);
  const BlockId block = table.Take();
  table.AddClaim(block);
  table.SetPinned(block);
  CHECK(table.DropClaim(block) == BlockState::kHeld);
  CHECK(table.ClearPinned(block) == BlockState::kHeld);
  CHECK(table.held_count() == 1);
}

TEST_CASE("BlockTable drops many references to a block in one step") {
  BlockTable table(/*num_blocks=*/1);
  const BlockId block = table.Take();
  table.AddReference(block);
  table.AddReference(block);
  CHECK(table.DropReferences(block, 2) == BlockState::kHeld);
  CHECK(table.DropReferences(block, 1) == BlockState::kFree);
}

TEST_CASE("BlockTable tells of the first change to a watched block, whatever it is") {
  BlockTable table(/*num_blocks=*/2);
  const BlockId watched = table.Take();
  const BlockId other = table.Take();
  const auto check_told = [&](const auto& change) {
    table.mutable_record(watched).flags |= BlockRecord::kWatched;
    table.AddReference(other);
    CHECK(table.changed().empty());
    change();
    CHECK(table.changed() == std::vector<BlockId>{watched});
    CHECK_FALSE(table.record(watched).has(BlockRecord::kWatched));
    table.ClearChanged();
  };
  check_told([&] { table.AddReference(watched); });
  check_told([&] { table.AddClaim(watched); });
  check_told([&] { table.SetPinned(watched); });
  check_told([&] { table.DropClaim(watched); });
  check_told([&] { table.ClearPinned(watched); });
  check_told([&] { table.DropReferences(watched, 2); });
  check_told([&] { CHECK(table.Take() == watched); });
  table.AddReference(watched);
  CHECK(table.changed().empty());
}

TEST_CASE("BlockTable's free stack lists the freed blocks, the last first") {
  BlockTable table(/*num_blocks=*/5);
  for (int i = 0; i < 3; ++i) table.Take();
  CHECK(table.FreeStack().empty());
  table.DropReferences(BlockId{1}, 1);
  table.DropReferences(BlockId{0}, 1);
  CHECK(table.FreeStack() == std::vector<BlockId>{BlockId{0}, BlockId{1}});
  CHECK(table.has_record(BlockId{2}));
  CHECK_FALSE(table.has_record(BlockId{3}));
}

}  // namespace
}  // namespace kvpool
