#include "core/ledger/prefix/prefix_index.h"

#include <csignal>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/dies_in_child.h"
#include "tests/unit/prefix/prefix_test_keys.h"

namespace kvpool {
namespace {

using test::KeyOf;

constexpr TenantSlot kTenant{2};

const SpaceNames kSpace = {
    .root = KeyOf(1'000), .tenant = kTenant, .model_id = "model", .adapter = "adapter"};

// A chain of keys 1, 2, 3 in blocks 10, 20, 30.
struct Chain {
  explicit Chain(PrefixIndex& index)
      : first(index.InsertFirst(KeyOf(1), BlockId{10}, kSpace)),
        second(index.Insert(KeyOf(2), BlockId{20}, first.entry)),
        third(index.Insert(KeyOf(3), BlockId{30}, second.entry)) {}

  InsertResult first, second, third;
};

std::vector<EntrySlot> Run(const PrefixIndex& index, const std::vector<PrefixKey>& keys) {
  std::vector<EntrySlot> found;
  index.FindRun(keys, found);
  return found;
}

TEST_CASE("An index finds nothing when it is empty, and does not mind being asked") {
  PrefixIndex index;
  CHECK(index.Find(KeyOf(1)) == kNoEntry);
  CHECK(index.EntryOf(BlockId{0}) == kNoEntry);
  CHECK(Run(index, {KeyOf(1)}).empty());
  CHECK(index.findable_count() == 0);
  CHECK(index.findable_count(kTenant) == 0);
  CHECK(index.Reset(kTenant) == 0);
  CHECK(index.ResetAll() == 0);
  CHECK(index.TakeOld() == kNoEntry);
  CHECK(index.TakeOld(kTenant) == kNoEntry);
  index.Forget(BlockId{5});
  CHECK(index.CheckInvariants().ok());
}

TEST_CASE("An entry is found by its key and by its block, and knows both") {
  PrefixIndex index;
  const Chain chain(index);
  CHECK(chain.second.is_new);
  CHECK(index.Find(KeyOf(2)) == chain.second.entry);
  CHECK(index.EntryOf(BlockId{20}) == chain.second.entry);
  CHECK(index.EntryOf(BlockId{21}) == kNoEntry);
  const PrefixEntry& entry = index.at(chain.second.entry);
  CHECK(entry.key == KeyOf(2));
  CHECK(entry.block == BlockId{20});
  CHECK(entry.parent == chain.first.entry);
  CHECK(entry.child_count == 1);
  CHECK(index.at(chain.first.entry).parent == kNoEntry);
  CHECK(index.is_findable(chain.second.entry));
  CHECK_FALSE(index.is_old(chain.second.entry));
  CHECK(index.findable_count() == 3);
  CHECK(index.findable_count(kTenant) == 3);
  CHECK(index.findable_count(TenantSlot{0}) == 0);
}

TEST_CASE("An entry has the names of its space, which its children inherit") {
  PrefixIndex index;
  const Chain chain(index);
  for (const EntrySlot slot : {chain.first.entry, chain.third.entry}) {
    CHECK(index.root(slot) == KeyOf(1'000));
    CHECK(index.tenant(slot) == kTenant);
    CHECK(index.model_id(slot) == "model");
    CHECK(index.adapter(slot) == "adapter");
  }
}

TEST_CASE("FindRun finds the blocks up to the first that is missing") {
  PrefixIndex index;
  const Chain chain(index);
  CHECK(Run(index, {KeyOf(1), KeyOf(2), KeyOf(3)}) ==
        std::vector{chain.first.entry, chain.second.entry, chain.third.entry});
  CHECK(Run(index, {KeyOf(1), KeyOf(9), KeyOf(3)}) == std::vector{chain.first.entry});
  CHECK(Run(index, {KeyOf(9), KeyOf(1)}).empty());
  CHECK(Run(index, {}).empty());
}

TEST_CASE("CountRun counts what FindRun finds of a sequence") {
  PrefixIndex index;
  std::vector<PrefixKey> keys;
  EntrySlot parent = kNoEntry;
  for (uint8_t i = 0; i < 9; ++i) keys.push_back(KeyOf(i));
  for (size_t count = 0; count <= keys.size(); ++count) {
    CAPTURE(count);
    CHECK(index.CountRun(keys) == count);
    CHECK(index.CountRun(std::span(keys).first(count)) == count);
    CHECK(index.CountRun(std::span(keys).subspan(count)) == 0);
    if (count == keys.size()) break;
    const BlockId block{static_cast<uint32_t>(count)};
    parent = (count == 0 ? index.InsertFirst(keys[count], block, kSpace)
                         : index.Insert(keys[count], block, parent))
                 .entry;
  }
  CHECK(index.ResetAll() == keys.size());
  CHECK(index.CountRun(keys) == 0);
}

TEST_CASE("A parent is told when it ceases to be a leaf, and when it is one again") {
  PrefixIndex index;
  const InsertResult parent = index.InsertFirst(KeyOf(1), BlockId{1}, kSpace);
  CHECK_FALSE(parent.parent_was_leaf);
  const InsertResult child = index.Insert(KeyOf(2), BlockId{2}, parent.entry);
  CHECK(child.parent_was_leaf);
  const InsertResult sibling = index.Insert(KeyOf(3), BlockId{3}, parent.entry);
  CHECK_FALSE(sibling.parent_was_leaf);
  CHECK(index.at(parent.entry).child_count == 2);
  CHECK(index.Remove(child.entry) == kNoEntry);
  CHECK(index.Remove(sibling.entry) == parent.entry);
  CHECK(index.at(parent.entry).child_count == 0);
  CHECK(index.Remove(parent.entry) == kNoEntry);
  CHECK(index.findable_count() == 0);
  CHECK(index.CheckInvariants().ok());
}

TEST_CASE("A key that is there already stays with its block, and the caller is told whose") {
  PrefixIndex index;
  const Chain chain(index);
  for (const InsertResult& again : {index.Insert(KeyOf(2), BlockId{21}, chain.first.entry),
                                    index.Insert(KeyOf(2), BlockId{20}, chain.first.entry)}) {
    CHECK_FALSE(again.is_new);
    CHECK_FALSE(again.parent_was_leaf);
    CHECK(again.entry == chain.second.entry);
    CHECK(index.at(again.entry).block == BlockId{20});
  }
  const InsertResult first = index.InsertFirst(KeyOf(1), BlockId{11}, kSpace);
  CHECK_FALSE(first.is_new);
  CHECK(index.at(first.entry).block == BlockId{10});
  CHECK(index.EntryOf(BlockId{11}) == kNoEntry);
  CHECK(index.EntryOf(BlockId{21}) == kNoEntry);
  CHECK(index.at(chain.first.entry).child_count == 1);
  CHECK(index.CheckInvariants().ok());
}

TEST_CASE("A removed entry is not found, and remembers its block's key until it is forgotten") {
  PrefixIndex index;
  const Chain chain(index);
  CHECK(index.Remove(chain.third.entry) == chain.second.entry);
  CHECK(index.Find(KeyOf(3)) == kNoEntry);
  CHECK(index.findable_count() == 2);
  REQUIRE(index.EntryOf(BlockId{30}) == chain.third.entry);
  CHECK(index.at(chain.third.entry).key == KeyOf(3));
  CHECK_FALSE(index.is_findable(chain.third.entry));
  CHECK_FALSE(index.is_old(chain.third.entry));
  index.Forget(BlockId{30});
  CHECK(index.EntryOf(BlockId{30}) == kNoEntry);
  CHECK(index.CheckInvariants().ok());
}

TEST_CASE("A remembered block can be published again under its key") {
  PrefixIndex index;
  const Chain chain(index);
  index.Remove(chain.third.entry);
  const InsertResult again = index.Insert(KeyOf(3), BlockId{30}, chain.second.entry);
  CHECK(again.is_new);
  CHECK(again.parent_was_leaf);
  CHECK(index.Find(KeyOf(3)) == again.entry);
  CHECK(index.EntryOf(BlockId{30}) == again.entry);
  CHECK(index.CheckInvariants().ok());
}

TEST_CASE("A forgotten block can be published under another key") {
  PrefixIndex index;
  const Chain chain(index);
  index.Remove(chain.third.entry);
  index.Forget(BlockId{30});
  CHECK(index.Insert(KeyOf(4), BlockId{30}, chain.second.entry).is_new);
  CHECK(index.at(index.Find(KeyOf(4))).block == BlockId{30});
}

TEST_CASE("Spaces of one tenant are apart, and each is there while it has entries") {
  PrefixIndex index;
  SpaceNames other = kSpace;
  other.root = KeyOf(2'000);
  other.adapter = "other";
  const EntrySlot a = index.InsertFirst(KeyOf(1), BlockId{1}, kSpace).entry;
  const EntrySlot b = index.InsertFirst(KeyOf(2), BlockId{2}, other).entry;
  CHECK(index.root(a) != index.root(b));
  CHECK(index.adapter(b) == "other");
  CHECK(index.findable_count(kTenant) == 2);
  index.Remove(a);
  CHECK(index.CheckInvariants().ok());
  const EntrySlot again = index.InsertFirst(KeyOf(3), BlockId{3}, kSpace).entry;
  CHECK(index.adapter(again) == "adapter");
  CHECK(index.CheckInvariants().ok());
}

TEST_CASE("An index dies rather than lose a block, a child or a key") {
  PrefixIndex index;
  const Chain chain(index);
  const auto dies = [](const auto& call) { return test::DiesInChild(call, SIGABRT); };
  // It has children.
  CHECK(dies([&] { index.Remove(chain.first.entry); }));
  // It is findable.
  CHECK(dies([&] { index.Forget(BlockId{30}); }));
  // It is sealed under another key.
  CHECK(dies([&] { index.Insert(KeyOf(4), BlockId{30}, chain.second.entry); }));
  index.Remove(chain.third.entry);
  CHECK(dies([&] { index.Insert(KeyOf(4), BlockId{30}, chain.second.entry); }));
  // The parent is not findable.
  CHECK(dies([&] { index.Insert(KeyOf(4), BlockId{40}, chain.third.entry); }));
  // It is removed already.
  CHECK(dies([&] { index.Remove(chain.third.entry); }));
  CHECK_FALSE(dies([&] { index.Remove(chain.second.entry); }));
}

}  // namespace
}  // namespace kvpool
