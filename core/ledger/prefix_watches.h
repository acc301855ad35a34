#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "core/ledger/events.h"
#include "core/ledger/prefix_cache.h"
#include "core/ledger/prefix_log.h"
#include "core/ledger/tenant_table.h"
#include "core/ledger/watch_calls.h"

namespace kvpool {

// PrefixWatches are those who watch a ledger's prefixes. Each has a place in the one log of
// changes, and, until its snapshot is complete, one in the index; nothing is kept for anybody, so
// one that does not read costs nothing but its place, and loses it when the log has gone past.
//
// A snapshot's entries and the changes meanwhile interleave: each read first tells all changes,
// but for blocks stored where the snapshot is yet to come, and then goes on with the snapshot. So
// what was told is at any time what the index has where the snapshot has been, parents are told
// first, and a snapshot, however long, asks no more of the log than the time between two reads.
class PrefixWatches {
 public:
  // How much one event tells at most; where one block has more tokens, that block alone.
  static constexpr size_t kMaxKeysAnEvent = 1024;
  static constexpr size_t kMaxTokensAnEvent = 65'536;

  // Both must outlive it.
  PrefixWatches(PrefixCache& cache, const TenantTable& tenants)
      : cache_(cache), tenants_(tenants) {}

  PrefixWatches(const PrefixWatches&) = delete;
  PrefixWatches& operator=(const PrefixWatches&) = delete;

  // Each is followed by one Close.
  WatchId Open(const WatchCall& call);
  void Close(WatchId id);

  // Appends to `events` what comes next, in at most `max_steps` steps: one a change (the watcher's
  // or not), entry of the snapshot or tenant, and one more each kTokensAStep tokens. What goes on
  // the last of `events` is joined to it.
  WatchProgress Read(WatchId id, size_t max_steps, std::vector<PrefixEvent>& events);
  // The number of the last change that it was told, or that was not its to be told.
  uint64_t sequence(WatchId id) const { return watches_.at(id).after; }

  // Adds a WatchReady for each that had caught up and is behind again.
  void TellReady(std::vector<LedgerEvent>& events);

 private:
  static constexpr size_t kTokensAStep = 64;

  struct Watch {
    std::optional<std::string> tenant{};
    bool with_tokens = false;
    bool is_begun = false;  // Its snapshot's first event was told.
    bool is_over = false;   // It lost changes, and was told.
    std::optional<SnapshotId> snapshot{};
    uint64_t after = 0;
  };

  bool Sees(const Watch& watch, const std::string& tenant) const {
    return !watch.tenant.has_value() || *watch.tenant == tenant;
  }
  // Tells the next change. Returns the steps that it took.
  size_t ReadChange(Watch& watch, std::vector<PrefixEvent>& events) const;
  // Requires that all changes were told.
  void ReadSnapshot(Watch& watch, size_t max_steps, std::vector<PrefixEvent>& events);

  PrefixCache& cache_;
  const TenantTable& tenants_;
  absl::flat_hash_map<WatchId, Watch> watches_;
  uint64_t last_id_ = 0;
  std::vector<WatchId> caught_up_;  // They are to be told of changes after `caught_up_at_`.
  uint64_t caught_up_at_ = 0;
};

}  // namespace kvpool
