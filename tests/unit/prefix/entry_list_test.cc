#include "core/ledger/prefix/entry_list.h"

#include <vector>

#include "tests/support/catch.h"

namespace kvpool {
namespace {

class Entries {
 public:
  Entries() {
    for (int i = 0; i < 6; ++i) table.Add();
  }
  EntryList ListOf(const std::vector<uint32_t>& slots) {
    EntryList list;
    for (const uint32_t slot : slots) list.Append(EntrySlot{slot}, table);
    return list;
  }
  // What is in the list; empty too if its links do not agree.
  std::vector<uint32_t> Read(const EntryList& list) const {
    std::vector<uint32_t> slots;
    EntrySlot before = kNoEntry;
    for (EntrySlot slot = list.head(); slot != kNoEntry; slot = table[ToIndex(slot)].next) {
      if (table[ToIndex(slot)].previous != before) return {};
      slots.push_back(ToIndex(slot));
      before = slot;
    }
    return list.tail() == before ? slots : std::vector<uint32_t>();
  }

  EntryTable table;
};

TEST_CASE("EntryList keeps entries in the order in which they were appended") {
  Entries entries;
  CHECK(EntryList().is_empty());
  CHECK(entries.Read(entries.ListOf({2, 0, 1})) == std::vector<uint32_t>{2, 0, 1});
}

TEST_CASE("EntryList removes the first, the last, one between and the only one") {
  Entries entries;
  EntryList list = entries.ListOf({0, 1, 2, 3});
  list.Remove(EntrySlot{1}, entries.table);
  CHECK(entries.Read(list) == std::vector<uint32_t>{0, 2, 3});
  list.Remove(EntrySlot{0}, entries.table);
  CHECK(entries.Read(list) == std::vector<uint32_t>{2, 3});
  list.Remove(EntrySlot{3}, entries.table);
  CHECK(entries.Read(list) == std::vector<uint32_t>{2});
  list.Remove(EntrySlot{2}, entries.table);
  CHECK(list.is_empty());
  CHECK(list.tail() == kNoEntry);
}

TEST_CASE("EntryList takes all of another after its own, whichever is empty") {
  Entries entries;
  EntryList list = entries.ListOf({0, 1});
  EntryList other = entries.ListOf({2, 3});
  list.AppendAll(other, entries.table);
  CHECK(other.is_empty());
  CHECK(entries.Read(list) == std::vector<uint32_t>{0, 1, 2, 3});
  list.AppendAll(other, entries.table);
  CHECK(entries.Read(list) == std::vector<uint32_t>{0, 1, 2, 3});
  other.AppendAll(list, entries.table);
  CHECK(entries.Read(other) == std::vector<uint32_t>{0, 1, 2, 3});
  other.Append(EntrySlot{4}, entries.table);
  CHECK(entries.Read(other) == std::vector<uint32_t>{0, 1, 2, 3, 4});
}

}  // namespace
}  // namespace kvpool
