#include "tests/model/cache/watchers.h"

#include <utility>

namespace kvpool::test {
namespace {

constexpr size_t kMaxWatchers = 4;

}  // namespace

std::string Watchers::Step() {
  if (watchers_.size() < kMaxWatchers) {
    Watcher& added = watchers_.emplace_back();
    const uint32_t tenant = random_.Below(static_cast<uint32_t>(tenants_.size()) + 1);
    if (tenant < tenants_.size()) added.tenant = tenants_[tenant];
    Open(added, std::nullopt);
  }
  Watcher& watcher = watchers_[random_.Below(static_cast<uint32_t>(watchers_.size()))];
  if (!watcher.id.has_value()) {
    // Half of them know nothing any more.
    if (random_.OneIn(2)) watcher.index = WatchedIndex();
    Open(watcher, watcher.index.sequence());
    return "";
  }
  if (random_.OneIn(10)) {
    Close(watcher);
    return "";
  }
  return Read(watcher, 1 + random_.Below(3));
}

std::string Watchers::Compare(const WatchedIndex::Entries& findable) {
  if (watchers_.empty()) return "";
  Watcher& watcher = watchers_[random_.Below(static_cast<uint32_t>(watchers_.size()))];
  if (!watcher.id.has_value()) return "";
  watcher.is_caught_up = false;
  while (watcher.id.has_value() && !watcher.is_caught_up) {
    std::string wrong = Read(watcher, 1 + random_.Below(6));
    if (!wrong.empty()) return wrong;
  }
  if (!watcher.id.has_value()) return "";
  if (!watcher.index.is_complete()) return "a watcher has read all, but its snapshot has no end";
  WatchedIndex::Entries expected = findable;
  std::erase_if(expected, [&](const auto& entry) {
    return watcher.tenant.has_value() && entry.second.tenant != *watcher.tenant;
  });
  return watcher.index.entries() == expected ? "" : "a watcher's index is another";
}

std::string Watchers::Read(Watcher& watcher, size_t max_steps) {
  std::vector<PrefixEvent> events;
  const WatchProgress progress = ledger_.watches().Read(*watcher.id, max_steps, events);
  watcher.is_caught_up = progress == WatchProgress::kCaughtUp;
  for (const PrefixEvent& event : events) {
    if (watcher.tenant.has_value() && event.tenant.has_value() && event.tenant != watcher.tenant) {
      return "a tenant is told of another's";
    }
    std::string wrong = watcher.index.Apply(event);
    if (!wrong.empty()) return wrong;
  }
  if ((progress == WatchProgress::kOver) != watcher.index.is_lost()) {
    return "a watch is over without a resync";
  }
  if (watcher.is_caught_up && ledger_.watches().sequence(*watcher.id) < watcher.index.sequence()) {
    return "a watch's number is less than what it was told";
  }
  if (watcher.index.is_lost()) {
    Close(watcher);
    // It begins anew: what it knows is nothing to go on from.
    watcher.index = WatchedIndex();
    Open(watcher, std::nullopt);
  }
  return "";
}

void Watchers::Open(Watcher& watcher, std::optional<uint64_t> after) {
  // From within a snapshot nobody can go on.
  if (!watcher.index.is_complete()) {
    watcher.index = WatchedIndex();
    after.reset();
  }
  watcher.id = ledger_.watches().Open({.tenant = watcher.tenant, .after = after});
  watcher.is_caught_up = false;
  if (!after.has_value()) return;
  // Where the ledger begins with a snapshot after all, its first event says so.
  std::vector<PrefixEvent> events;
  ledger_.watches().Read(*watcher.id, 0, events);
  if (!events.empty() && events.front().sequence == 0) watcher.index = WatchedIndex();
  for (const PrefixEvent& event : events) watcher.index.Apply(event);
}

void Watchers::Close(Watcher& watcher) {
  ledger_.watches().Close(*watcher.id);
  watcher.id.reset();
}

}  // namespace kvpool::test
