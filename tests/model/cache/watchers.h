#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "tests/support/random.h"
#include "tests/support/watched_index.h"

namespace kvpool::test {

// Those who watch a ledger's prefixes, of a tenant or all, some slowly: now and then one opens,
// reads a little, goes away, and comes back.
class Watchers {
 public:
  // The ledger's tenants have these names. Both must outlive it.
  Watchers(Ledger& ledger, Random& random, std::vector<std::string> tenants)
      : ledger_(ledger), random_(random), tenants_(std::move(tenants)) {}

  // Something of one of them. Returns what was wrong, or nothing.
  std::string Step();
  // Reads one to its end, unless it is lost on the way; what it knows must be its part of
  // `findable`.
  std::string Compare(const WatchedIndex::Entries& findable);

 private:
  struct Watcher {
    std::optional<std::string> tenant{};
    std::optional<WatchId> id{};  // None: it is away.
    bool is_caught_up = false;
    WatchedIndex index{};
  };

  std::string Read(Watcher& watcher, size_t max_steps);
  void Open(Watcher& watcher, std::optional<uint64_t> after);
  void Close(Watcher& watcher);

  Ledger& ledger_;
  Random& random_;
  const std::vector<std::string> tenants_;
  std::vector<Watcher> watchers_;
};

}  // namespace kvpool::test
