#include "core/ledger/prefix_log.h"

#include <deque>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool {
namespace {

PrefixKey KeyOf(uint8_t number) {
  PrefixKey key;
  key.bytes.fill(number);
  return key;
}

PrefixChange Stored(uint8_t number) {
  return {.kind = PrefixChange::Kind::kStored, .key = KeyOf(number), .tenant = TenantSlot{1}};
}

TEST_CASE("PrefixLog numbers changes and keeps the latest") {
  PrefixLog log(/*capacity=*/3, /*before_first=*/100);
  CHECK(log.first() == 101);
  CHECK(log.last() == 100);
  for (uint8_t i = 1; i <= 5; ++i) log.Add(Stored(i), {.tenant = "acme"});
  CHECK(log.first() == 103);
  CHECK(log.last() == 105);
  for (uint8_t i = 3; i <= 5; ++i) CHECK(log.at(uint64_t{100} + i).key == KeyOf(i));
}

TEST_CASE("PrefixLog keeps a change's tokens and names while it keeps the change") {
  PrefixLog log(/*capacity=*/2, /*before_first=*/0);
  const std::vector<uint32_t> tokens = {7, 8, 9};
  {
    const std::string adapter(200, 'a');
    log.Add(Stored(1), {.tenant = "acme", .model_id = "llama", .adapter = adapter}, tokens);
  }
  const PrefixChange& change = log.at(1);
  CHECK(change.names->tenant == "acme");
  CHECK(change.names->model_id == "llama");
  CHECK(change.names->adapter == std::string(200, 'a'));
  CHECK(std::vector<uint32_t>(change.token_span().begin(), change.token_span().end()) == tokens);
  CHECK(log.held_bytes() > 200 + 12);
  log.Add(Stored(2), {});
  log.Add(Stored(3), {});
  CHECK(log.held_bytes() < 200);
}

TEST_CASE("PrefixLog shares names between changes") {
  PrefixLog log(/*capacity=*/100, /*before_first=*/0);
  const std::string adapter(100, 'a');
  log.Add(Stored(1), {.tenant = "acme", .adapter = adapter});
  const size_t bytes = log.held_bytes();
  log.Add(Stored(2), {.tenant = "acme", .adapter = "other"});
  const size_t both = log.held_bytes();
  log.Add(Stored(3), {.tenant = "acme", .adapter = adapter});
  CHECK(both < 2 * bytes);
  CHECK(log.held_bytes() == both);
  CHECK(log.at(3).names == log.at(1).names);
}

TEST_CASE("PrefixLog drops changes early whose tokens or names take too much") {
  constexpr uint32_t kCapacity = 64;
  constexpr size_t kLimit = kCapacity * PrefixLog::kBytesAChange;
  PrefixLog log(kCapacity, /*before_first=*/0);
  const std::vector<uint32_t> tokens(256);
  for (uint8_t i = 0; i < 40; ++i) {
    log.Add(Stored(i), {.tenant = "acme", .adapter = std::string(i, 'a')}, tokens);
    CHECK(log.held_bytes() <= kLimit);
  }
  CHECK(log.first() > 30);
  CHECK(log.last() == 40);
  // One that takes too much by itself is kept, alone.
  const std::vector<uint32_t> many(kLimit);
  log.Add(Stored(1), {}, many);
  CHECK(log.first() == log.last());
  CHECK(log.at(log.last()).token_span().size() == many.size());
  log.Add(Stored(2), {});
  CHECK(log.first() == log.last());
  CHECK(log.held_bytes() < 200);
}

TEST_CASE("PrefixLog agrees with a list over random changes") {
  struct Known {
    PrefixKey key;
    std::string tenant;
    std::string adapter;
    std::vector<uint32_t> tokens;
  };
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  for (int run = 0; run < 20; ++run) {
    const uint32_t capacity = 1 + random.Below(40);
    PrefixLog log(capacity, /*before_first=*/5);
    std::deque<Known> model;
    for (int step = 0; step < 2'000; ++step) {
      CAPTURE(seed, run, step);
      const auto number = static_cast<uint8_t>(random.Next());
      const Known known = {.key = KeyOf(number),
                           .tenant = absl::StrCat("tenant", random.Below(3)),
                           .adapter = std::string(random.Below(60), 'x'),
                           .tokens = std::vector<uint32_t>(random.Below(30), number)};
      log.Add(Stored(number), {.tenant = known.tenant, .adapter = known.adapter}, known.tokens);
      model.push_back(known);
      if (model.size() > capacity) model.pop_front();
      REQUIRE(log.last() == 6 + static_cast<uint64_t>(step));
      const uint64_t held = log.last() - log.first() + 1;
      REQUIRE(held <= model.size());
      REQUIRE((held == model.size() || held > 0));
      // What it dropped early, it dropped for the bytes of what it kept and the next.
      while (model.size() > held) model.pop_front();
      const size_t place = random.Below(static_cast<uint32_t>(held));
      const PrefixChange& change = log.at(log.first() + place);
      REQUIRE(change.key == model[place].key);
      REQUIRE(change.names->tenant == model[place].tenant);
      REQUIRE(change.names->adapter == model[place].adapter);
      REQUIRE(std::vector<uint32_t>(change.token_span().begin(), change.token_span().end()) ==
              model[place].tokens);
      REQUIRE((held == 1 || log.held_bytes() <= capacity * PrefixLog::kBytesAChange));
    }
  }
}

}  // namespace
}  // namespace kvpool
