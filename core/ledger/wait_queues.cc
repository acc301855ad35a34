#include "core/ledger/wait_queues.h"

#include "core/check.h"

namespace kvpool {

void WaitQueues::Add(WaitingCall call) {
  const uint64_t number = ++last_number_;
  const PendingId id = call.id;
  const WaitQueue queue = call.queue;
  deadlines_.emplace(call.deadline, id);
  if (call.has_guarantee) guaranteed_.emplace(number, id);
  const bool is_new = places_.emplace(id, Place{queue, number}).second;
  KVPOOL_CHECK(is_new);
  queues_[static_cast<size_t>(queue)].emplace(number, std::move(call));
}

WaitingCall WaitQueues::Remove(PendingId id) {
  const auto place = places_.find(id);
  KVPOOL_CHECK(place != places_.end());
  auto& queue = queues_[static_cast<size_t>(place->second.queue)];
  const auto found = queue.find(place->second.number);
  WaitingCall call = std::move(found->second);
  queue.erase(found);
  guaranteed_.erase(place->second.number);
  deadlines_.erase({call.deadline, id});
  places_.erase(place);
  return call;
}

void WaitQueues::Replace(PendingId id, PendingId by, TimePoint deadline) {
  const auto found = places_.find(id);
  KVPOOL_CHECK(found != places_.end());
  const Place place = found->second;
  places_.erase(found);
  places_.emplace(by, place);
  WaitingCall& call = queues_[static_cast<size_t>(place.queue)].at(place.number);
  deadlines_.erase({call.deadline, id});
  deadlines_.emplace(deadline, by);
  if (call.has_guarantee) guaranteed_[place.number] = by;
  call.id = by;
  call.deadline = deadline;
}

WaitingCall* WaitQueues::Find(PendingId id) {
  const auto place = places_.find(id);
  if (place == places_.end()) return nullptr;
  return &queues_[static_cast<size_t>(place->second.queue)].at(place->second.number);
}

WaitingCall* WaitQueues::front() {
  for (auto& queue : queues_) {
    if (!queue.empty()) return &queue.begin()->second;
  }
  return nullptr;
}

bool WaitQueues::is_clear(WaitQueue queue) const {
  return queues_[0].empty() && (queue == WaitQueue::kGrow || queues_[1].empty());
}

std::vector<PendingId> WaitQueues::guaranteed() const {
  std::vector<PendingId> ids;
  for (const auto& [number, id] : guaranteed_) ids.push_back(id);
  return ids;
}

std::optional<std::pair<TimePoint, PendingId>> WaitQueues::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return *deadlines_.begin();
}

}  // namespace kvpool
