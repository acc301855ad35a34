#include "core/ledger/prefix/keyed_table.h"

#include <map>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/random.h"
#include "tests/unit/prefix/prefix_test_keys.h"

namespace kvpool {
namespace {

struct Record {
  PrefixKey key;
  uint32_t next_in_bucket = 0;
  uint32_t value = 0;
};

using Table = KeyedTable<Record>;

constexpr auto kAny = [](const Record&) { return true; };

uint32_t AddListed(Table& table, const PrefixKey& key, uint32_t value) {
  const uint32_t slot = table.Add();
  table[slot].key = key;
  table[slot].value = value;
  table.List(slot);
  return slot;
}

TEST_CASE("KeyedTable finds nothing while nothing is listed") {
  Table table;
  CHECK(table.Find(test::KeyOf(1), kAny) == Table::kNone);
  const uint32_t slot = table.Add();
  table[slot].key = test::KeyOf(1);
  CHECK(table.Find(test::KeyOf(1), kAny) == Table::kNone);
  CHECK(table.listed_count() == 0);
}

TEST_CASE("KeyedTable finds the latest of the records of one key that is as asked") {
  Table table;
  const PrefixKey key = test::KeyOf(1);
  const uint32_t first = AddListed(table, key, 1);
  const uint32_t second = AddListed(table, key, 2);
  CHECK(table.Find(key, kAny) == second);
  CHECK(table.Find(key, [](const Record& record) { return record.value == 1; }) == first);
  // The table grows, and the order stays.
  for (uint32_t i = 0; i < 100; ++i) AddListed(table, test::KeyOf(100 + i), 0);
  CHECK(table.Find(key, kAny) == second);
  table.Unlist(second);
  CHECK(table.Find(key, kAny) == first);
}

TEST_CASE("KeyedTable reuses slots, with fresh records") {
  Table table;
  const uint32_t slot = AddListed(table, test::KeyOf(1), 5);
  table.Unlist(slot);
  table.Drop(slot);
  CHECK(table.Add() == slot);
  CHECK(table[slot].value == 0);
  CHECK(table.end() == 1);
}

// To replay a failure, set KVPOOL_TEST_SEED to the seed that it prints.
TEST_CASE("KeyedTable agrees with a map over random calls") {
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  Table table;
  std::map<PrefixKey, uint32_t> model;
  for (int step = 0; step < 20'000; ++step) {
    CAPTURE(seed, step);
    const PrefixKey key = test::KeyOf(random.Below(2'000));
    const uint32_t slot = table.Find(key, kAny);
    const auto known = model.find(key);
    REQUIRE(slot == (known == model.end() ? Table::kNone : known->second));
    if (slot == Table::kNone) {
      model[key] = AddListed(table, key, 0);
    } else if (random.OneIn(2)) {
      table.Unlist(slot);
      table.Drop(slot);
      model.erase(known);
    }
    REQUIRE(table.listed_count() == model.size());
  }
  for (const auto& [key, slot] : model) CHECK(table.Find(key, kAny) == slot);
  CHECK(table.end() <= 2'000);
}

}  // namespace
}  // namespace kvpool
