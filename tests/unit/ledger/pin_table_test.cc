#include "core/ledger/pin_table.h"

#include <algorithm>
#include <map>
#include <set>

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace kvpool {
namespace {

using Blocks = std::vector<BlockId>;
using Pins = std::vector<PendingId>;

constexpr BlockId kA{1};
constexpr BlockId kB{2};

TEST_CASE("PinTable shares a block between reads and gives it to one write") {
  PinTable table;
  CHECK(table.Add(PendingId{1}, Blocks{kA}, Blocks{}));
  CHECK(table.Add(PendingId{2}, Blocks{kA}, Blocks{}));
  CHECK_FALSE(table.Add(PendingId{3}, Blocks{}, Blocks{kA}));
  CHECK(table.Grant(PendingId{1}) == Blocks{kA});
  CHECK(table.Grant(PendingId{2}).empty());
  CHECK(table.is_pinned(kA));

  CHECK(table.Remove(PendingId{1}).clear.empty());
  const auto removed = table.Remove(PendingId{2});
  CHECK(removed.unpinned == Blocks{kA});
  CHECK(removed.clear == Pins{PendingId{3}});
}

TEST_CASE("PinTable lets no read overtake a write that waits") {
  PinTable table;
  table.Add(PendingId{1}, Blocks{kA}, Blocks{});
  table.Grant(PendingId{1});
  CHECK_FALSE(table.Add(PendingId{2}, Blocks{}, Blocks{kA}));
  CHECK_FALSE(table.Add(PendingId{3}, Blocks{kA}, Blocks{}));
  CHECK_FALSE(table.Add(PendingId{4}, Blocks{kA}, Blocks{}));

  CHECK(table.Remove(PendingId{1}).clear == Pins{PendingId{2}});
  table.Grant(PendingId{2});
  CHECK(table.Remove(PendingId{2}).clear == Pins{PendingId{3}, PendingId{4}});
}

TEST_CASE("PinTable clears a pin on all its blocks at once") {
  PinTable table;
  table.Add(PendingId{1}, Blocks{}, Blocks{kA});
  table.Grant(PendingId{1});
  table.Add(PendingId{2}, Blocks{}, Blocks{kB});
  table.Grant(PendingId{2});
  CHECK_FALSE(table.Add(PendingId{3}, Blocks{kB}, Blocks{kA}));
  CHECK(table.Remove(PendingId{1}).clear.empty());
  CHECK_FALSE(table.is_pinned(kA));
  CHECK(table.Remove(PendingId{2}).clear == Pins{PendingId{3}});
}

TEST_CASE("PinTable lets those behind go on when a waiting pin is withdrawn") {
  PinTable table;
  table.Add(PendingId{1}, Blocks{kA}, Blocks{});
  table.Grant(PendingId{1});
  table.Add(PendingId{2}, Blocks{}, Blocks{kA});
  table.Add(PendingId{3}, Blocks{kA}, Blocks{});
  const auto removed = table.Remove(PendingId{2});
  CHECK(removed.unpinned.empty());
  CHECK(removed.clear == Pins{PendingId{3}});
}

TEST_CASE("PinTable's fill goes before a pin that was clear on that block alone") {
  PinTable table;
  table.Add(PendingId{1}, Blocks{}, Blocks{kB});
  table.Grant(PendingId{1});
  CHECK_FALSE(table.Add(PendingId{2}, Blocks{}, Blocks{kA, kB}));

  table.AddFirst(PendingId{3}, Blocks{kA});
  CHECK(table.is_granted(PendingId{3}));
  CHECK(table.is_pinned(kA));
  CHECK(table.Remove(PendingId{1}).clear.empty());
  CHECK(table.Remove(PendingId{3}).clear == Pins{PendingId{2}});
}

// The rule in one sentence: a pin is clear when no pin that came before and is still there has one
// of its blocks, unless both only read it.
struct ModelPin {
  std::set<uint32_t> reads;
  std::set<uint32_t> writes;
};

bool Conflict(const ModelPin& a, const ModelPin& b) {
  const auto meet = [](const std::set<uint32_t>& x, const std::set<uint32_t>& y) {
    return std::ranges::any_of(x, [&](uint32_t block) { return y.contains(block); });
  };
  return meet(a.writes, b.writes) || meet(a.writes, b.reads) || meet(a.reads, b.writes);
}

TEST_CASE("PinTable agrees with its rule over random pins") {
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  PinTable table;
  std::map<uint64_t, ModelPin> model;
  std::set<uint64_t> granted;
  const auto is_clear = [&](uint64_t id) {
    return std::ranges::none_of(model, [&](const auto& other) {
      return other.first < id && Conflict(other.second, model.at(id));
    });
  };
  for (uint64_t id = 1; id <= 5'000; ++id) {
    CAPTURE(seed, id);
    ModelPin pin;
    for (uint32_t i = random.Below(3) + 1; i > 0; --i) {
      (random.OneIn(3) ? pin.writes : pin.reads).insert(random.Below(6));
    }
    for (const uint32_t block : pin.writes) pin.reads.erase(block);
    Blocks reads;
    Blocks writes;
    for (const uint32_t block : pin.reads) reads.push_back(BlockId{block});
    for (const uint32_t block : pin.writes) writes.push_back(BlockId{block});
    model.emplace(id, pin);
    REQUIRE(table.Add(PendingId{id}, reads, writes) == is_clear(id));
    if (is_clear(id)) {
      table.Grant(PendingId{id});
      granted.insert(id);
    }
    while (model.size() > 8 || (!model.empty() && random.OneIn(2))) {
      auto victim = model.begin();
      std::advance(victim, random.Below(static_cast<uint32_t>(model.size())));
      const uint64_t removed_id = victim->first;
      model.erase(victim);
      granted.erase(removed_id);
      Pins expected;
      for (const auto& [other, unused] : model) {
        if (!granted.contains(other) && is_clear(other)) expected.push_back(PendingId{other});
      }
      REQUIRE(table.Remove(PendingId{removed_id}).clear == expected);
      for (const PendingId clear : expected) {
        table.Grant(clear);
        granted.insert(static_cast<uint64_t>(clear));
      }
      for (uint32_t block = 0; block < 6; ++block) {
        const bool is_pinned = std::ranges::any_of(granted, [&](uint64_t other) {
          return model.at(other).reads.contains(block) || model.at(other).writes.contains(block);
        });
        REQUIRE(table.is_pinned(BlockId{block}) == is_pinned);
      }
    }
  }
}

}  // namespace
}  // namespace kvpool
