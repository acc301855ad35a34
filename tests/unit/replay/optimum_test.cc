#include "client/cli/replay/optimum.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/random.h"
#include "tests/unit/replay/generated_trace.h"

namespace kvpool::replay {
namespace {

using Prefix = std::vector<uint64_t>;

void Add(Trace& trace, const std::vector<uint64_t>& blocks) {
  trace.Add({.input_tokens = 512 * blocks.size()}, blocks);
}

// The index of the next request after `request` that has the prefix.
size_t NextUse(const Trace& trace, size_t request, const Prefix& prefix) {
  for (size_t i = request + 1; i < trace.requests().size(); ++i) {
    const auto blocks = trace.blocks(trace.requests()[i]);
    if (blocks.size() >= prefix.size() && std::ranges::equal(blocks.first(prefix.size()), prefix)) {
      return i;
    }
  }
  return SIZE_MAX;
}

// As the optimum is told: whole prefixes in a set, each looked up in the rest of the trace.
uint64_t CountPlainly(const Trace& trace, size_t capacity) {
  std::set<Prefix> cached;
  uint64_t hits = 0;
  for (size_t request = 0; request < trace.requests().size(); ++request) {
    Prefix prefix;
    for (const uint64_t block : trace.blocks(trace.requests()[request])) {
      prefix.push_back(block);
      if (!cached.insert(prefix).second) ++hits;
    }
    while (cached.size() > capacity) {
      const auto order = [&](const Prefix& a, const Prefix& b) {
        const size_t next_a = NextUse(trace, request, a);
        const size_t next_b = NextUse(trace, request, b);
        return next_a != next_b ? next_a < next_b : a.size() < b.size();
      };
      const auto victim = std::ranges::max_element(cached, order);
      for (const Prefix& other : cached) {
        // It is a leaf.
        CHECK_FALSE((other.size() > victim->size() &&
                     std::equal(victim->begin(), victim->end(), other.begin())));
      }
      cached.erase(victim);
    }
  }
  return hits;
}

}  // namespace

TEST_CASE("Optimum counts every block seen before where the cache is unlimited") {
  Trace trace;
  Add(trace, {1, 2, 3});
  Add(trace, {1, 2, 4});
  Add(trace, {2, 3});  // Other blocks: what comes before them is different.
  Add(trace, {});
  Add(trace, {1, 2, 3});
  const Optimum optimum(trace);
  CHECK(optimum.unique_count() == 6);
  CHECK(optimum.CountHits(SIZE_MAX) == 5);
  CHECK(optimum.CountHits(0) == 0);
}

TEST_CASE("Optimum keeps what is used again first, and leaves aside what never is") {
  Trace trace;
  Add(trace, {1});
  Add(trace, {2});
  Add(trace, {3});
  Add(trace, {1});
  Add(trace, {2});
  const Optimum optimum(trace);
  CHECK(optimum.CountHits(1) == 1);
  CHECK(optimum.CountHits(2) == 2);
}

TEST_CASE("Optimum agrees with a plain search of the future over generated traces") {
  const uint64_t seed = test::Seed();
  test::Random random(seed);
  for (int run = 0; run < 10; ++run) {
    const Trace trace = test::GenerateTrace(random, /*request_count=*/25);
    const Optimum optimum(trace);
    for (const size_t capacity : std::initializer_list<size_t>{0, 1, 7, 20, 45}) {
      CAPTURE(seed, run, capacity);
      CHECK(optimum.CountHits(capacity) == CountPlainly(trace, capacity));
    }
  }
}

}  // namespace kvpool::replay
