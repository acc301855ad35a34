#include "core/ledger/retry_table.h"

#include "tests/support/catch.h"

namespace kvpool {
namespace {

AllocAnswer AnswerWith(std::vector<uint32_t> blocks) {
  AllocAnswer answer;
  for (const uint32_t block : blocks) answer.blocks.push_back({BlockId{block}, Generation{1}});
  return answer;
}

TEST_CASE("RetryTable finds what it remembers under its key") {
  RetryTable table;
  table.Remember(5, /*request=*/50, DecRefAnswer{.freed = 3}, /*limit=*/4);
  REQUIRE(table.Find(5) != nullptr);
  CHECK(table.Find(5)->request == 50);
  CHECK(std::get<DecRefAnswer>(table.Find(5)->answer).freed == 3);
  CHECK(table.Find(6) == nullptr);
  table.Clear();
  CHECK(table.Find(5) == nullptr);
  CHECK(table.size() == 0);
}

TEST_CASE("RetryTable lets the oldest answer go for one over its limit") {
  RetryTable table;
  table.Remember(1, 0, AnswerWith({1, 2}), /*limit=*/2);
  table.Remember(2, 0, AnswerWith({3}), /*limit=*/2);
  CHECK(table.block_count() == 3);
  table.Remember(3, 0, std::monostate{}, /*limit=*/2);
  CHECK(table.Find(1) == nullptr);
  CHECK(table.Find(2) != nullptr);
  CHECK(table.Find(3) != nullptr);
  CHECK(table.block_count() == 1);
}

TEST_CASE("RetryTable remembers nothing where its limit is 0") {
  RetryTable table;
  table.Remember(1, 0, std::monostate{}, /*limit=*/0);
  CHECK(table.Find(1) == nullptr);
}

TEST_CASE("RetryTable spends the oldest answers that name blocks, until the rest names few") {
  RetryTable table;
  table.Remember(1, 0, DecRefAnswer{}, /*limit=*/8);
  table.Remember(2, 0, AnswerWith({1, 2}), /*limit=*/8);
  table.Remember(3, 0, std::monostate{}, /*limit=*/8);
  table.Remember(4, 0, AnswerWith({2, 3}), /*limit=*/8);
  table.Remember(5, 0, AnswerWith({2, 3, 4}), /*limit=*/8);
  table.SpendOldest(7);
  CHECK_FALSE(table.Find(2)->is_spent);
  table.SpendOldest(4);
  CHECK_FALSE(table.Find(1)->is_spent);
  CHECK(table.Find(2)->is_spent);
  CHECK(std::holds_alternative<std::monostate>(table.Find(2)->answer));
  CHECK_FALSE(table.Find(3)->is_spent);
  CHECK(table.Find(4)->is_spent);
  CHECK(table.block_count() == 3);
}

TEST_CASE("RetryTable never spends its newest answer, until it is that no more") {
  RetryTable table;
  table.Remember(1, 0, AnswerWith({1, 2, 3}), /*limit=*/2);
  table.SpendOldest(2);
  CHECK_FALSE(table.Find(1)->is_spent);
  table.Remember(2, 0, std::monostate{}, /*limit=*/2);
  table.SpendOldest(2);
  CHECK(table.Find(1)->is_spent);
  CHECK(table.block_count() == 0);
}

TEST_CASE("RetryTable goes on where it was when the oldest answers have left") {
  RetryTable table;
  for (uint64_t key = 1; key <= 20; ++key) {
    table.Remember(key, 0, AnswerWith({1, 2, 3}), /*limit=*/4);
    table.SpendOldest(7);
    CHECK_FALSE(table.Find(key)->is_spent);
    if (key >= 2) CHECK_FALSE(table.Find(key - 1)->is_spent);
    if (key >= 3) CHECK(table.Find(key - 2)->is_spent);
    CHECK(table.block_count() <= 7);
  }
}

TEST_CASE("RetryTable counts the duplicates that an answer names") {
  RetryTable table;
  PublishAnswer publish;
  publish.published = 7;
  table.Remember(1, 0, publish, /*limit=*/4);
  publish.duplicates.resize(5);
  table.Remember(2, 0, publish, /*limit=*/4);
  table.Remember(3, 0, publish, /*limit=*/4);
  CHECK(table.block_count() == 10);
  table.SpendOldest(5);
  CHECK_FALSE(table.Find(1)->is_spent);
  CHECK(table.Find(2)->is_spent);
  CHECK_FALSE(table.Find(3)->is_spent);
}

}  // namespace
}  // namespace kvpool
