#include "core/ledger/prefix_watches.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/check.h"

namespace kvpool {
namespace {

// A block that became findable, as it is told.
struct StoredBlock {
  uint64_t sequence = 0;
  const PrefixKey& key;
  std::optional<PrefixKey> parent;
  BlockRef block;
  PrefixNameViews names;
  std::span<const uint32_t> tokens;
};

// Whether the block goes on the run that `event` tells.
bool GoesOn(const PrefixEvent& event, const StoredBlock& stored) {
  return event.kind == PrefixEvent::Kind::kStored && stored.parent == event.keys.back() &&
         (event.sequence == 0) == (stored.sequence == 0) &&
         event.keys.size() < PrefixWatches::kMaxKeysAnEvent &&
         event.tokens.empty() == stored.tokens.empty() &&
         event.tokens.size() + stored.tokens.size() <= PrefixWatches::kMaxTokensAnEvent &&
         absl::string_view(*event.tenant) == stored.names.tenant &&
         absl::string_view(event.model_id) == stored.names.model_id &&
         absl::string_view(event.adapter) == stored.names.adapter;
}

void AppendStored(const StoredBlock& stored, std::vector<PrefixEvent>& events) {
  if (events.empty() || !GoesOn(events.back(), stored)) {
    events.push_back({.kind = PrefixEvent::Kind::kStored,
                      .parent = stored.parent,
                      .tenant = std::string(stored.names.tenant),
                      .model_id = std::string(stored.names.model_id),
                      .adapter = std::string(stored.names.adapter)});
  }
  PrefixEvent& event = events.back();
  event.sequence = stored.sequence;
  event.keys.push_back(stored.key);
  event.blocks.push_back(stored.block);
  event.tokens.insert(event.tokens.end(), stored.tokens.begin(), stored.tokens.end());
}

void AppendRemoved(uint64_t sequence, const PrefixKey& key, std::vector<PrefixEvent>& events) {
  if (events.empty() || events.back().kind != PrefixEvent::Kind::kRemoved ||
      events.back().keys.size() >= PrefixWatches::kMaxKeysAnEvent) {
    events.push_back({.kind = PrefixEvent::Kind::kRemoved});
  }
  events.back().sequence = sequence;
  events.back().keys.push_back(key);
}

}  // namespace

WatchId PrefixWatches::Open(const WatchCall& call) {
  const PrefixLog& log = cache_.log();
  Watch watch = {.with_tokens = call.with_tokens, .after = log.last()};
  if (call.tenant.has_value()) watch.tenant = std::string(*call.tenant);
  if (call.after.has_value() && *call.after + 1 >= log.first() && *call.after <= log.last()) {
    watch.after = *call.after;
    watch.is_begun = true;
  } else {
    watch.snapshot = cache_.OpenSnapshot(
        call.tenant.has_value() ? std::optional(tenants_.Find(*call.tenant)) : std::nullopt);
  }
  const WatchId id{++last_id_};
  watches_.emplace(id, std::move(watch));
  return id;
}

void PrefixWatches::Close(WatchId id) {
  const auto found = watches_.find(id);
  KVPOOL_CHECK(found != watches_.end());
  if (found->second.snapshot.has_value()) cache_.CloseSnapshot(*found->second.snapshot);
  watches_.erase(found);
  std::erase(caught_up_, id);
}

WatchProgress PrefixWatches::Read(WatchId id, size_t max_steps, std::vector<PrefixEvent>& events) {
  Watch& watch = watches_.at(id);
  if (watch.is_over) return WatchProgress::kOver;
  const PrefixLog& log = cache_.log();
  if (watch.after + 1 < log.first()) {
    watch.is_over = true;
    // Its own number: whoever goes on after it is lost as well, and begins with a snapshot.
    events.push_back({.kind = PrefixEvent::Kind::kResync, .sequence = watch.after});
    return WatchProgress::kOver;
  }
  if (!watch.is_begun) {
    events.push_back({.kind = PrefixEvent::Kind::kCleared, .tenant = watch.tenant});
    watch.is_begun = true;
  }
  size_t steps = 0;
  while (steps < max_steps && watch.after < log.last()) steps += ReadChange(watch, events);
  // Only where it has told all changes: what comes from here on is as of now.
  if (watch.snapshot.has_value() && watch.after == log.last() && steps < max_steps) {
    ReadSnapshot(watch, max_steps - steps, events);
  }
  if (watch.snapshot.has_value() || watch.after < log.last()) return WatchProgress::kMore;
  if (caught_up_.empty()) caught_up_at_ = log.last();
  if (std::ranges::find(caught_up_, id) == caught_up_.end()) caught_up_.push_back(id);
  return WatchProgress::kCaughtUp;
}

size_t PrefixWatches::ReadChange(Watch& watch, std::vector<PrefixEvent>& events) const {
  const PrefixChange& change = cache_.log().at(++watch.after);
  const bool is_of_all = change.kind == PrefixChange::Kind::kCleared && change.tenant == kNoTenant;
  if (!is_of_all && !Sees(watch, change.names->tenant)) return 1;
  switch (change.kind) {
    case PrefixChange::Kind::kStored: {
      if (watch.snapshot.has_value() && cache_.index().WillCome(*watch.snapshot, change.tenant))
        return 1;
      const std::span<const uint32_t> tokens =
          watch.with_tokens ? change.token_span() : std::span<const uint32_t>();
      AppendStored({.sequence = watch.after,
                    .key = change.key,
                    .parent = change.parent,
                    .block = change.block,
                    .names = {.tenant = change.names->tenant,
                              .model_id = change.names->model_id,
                              .adapter = change.names->adapter},
                    .tokens = tokens},
                   events);
      return 1 + tokens.size() / kTokensAStep;
    }
    case PrefixChange::Kind::kRemoved:
      AppendRemoved(watch.after, change.key, events);
      return 1;
    case PrefixChange::Kind::kCleared:
      events.push_back({.kind = PrefixEvent::Kind::kCleared,
                        .sequence = watch.after,
                        .tenant = is_of_all ? watch.tenant : change.names->tenant});
      return 1;
  }
  return 1;
}

void PrefixWatches::ReadSnapshot(Watch& watch, size_t max_steps, std::vector<PrefixEvent>& events) {
  const PrefixIndex& index = cache_.index();
  std::vector<EntrySlot> entries;
  const bool has_more = cache_.ReadSnapshot(*watch.snapshot, max_steps, entries);
  for (const EntrySlot slot : entries) {
    // The tenant's number may be another's by now.
    const std::string& tenant = tenants_.name(index.tenant(slot));
    if (!Sees(watch, tenant)) continue;
    const PrefixEntry& entry = index.at(slot);
    AppendStored({.sequence = 0,
                  .key = entry.key,
                  .parent = entry.parent == kNoEntry ? std::nullopt
                                                     : std::optional(index.at(entry.parent).key),
                  .block = cache_.RefOf(entry.block),
                  .names = {.tenant = tenant,
                            .model_id = index.model_id(slot),
                            .adapter = index.adapter(slot)},
                  .tokens = {}},
                 events);
  }
  if (has_more) return;
  cache_.CloseSnapshot(*watch.snapshot);
  watch.snapshot.reset();
  events.push_back({.kind = PrefixEvent::Kind::kSnapshotEnd, .sequence = watch.after});
}

void PrefixWatches::TellReady(std::vector<LedgerEvent>& events) {
  if (caught_up_.empty() || cache_.log().last() == caught_up_at_) return;
  for (const WatchId id : caught_up_) events.emplace_back(WatchReady{.id = id});
  caught_up_.clear();
}

}  // namespace kvpool
