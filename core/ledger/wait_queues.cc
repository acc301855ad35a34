#include "core/ledger/wait_queues.h"

#include <utility>

#include "core/check.h"

namespace kvpool {

WaitingCall& WaitQueues::Add(WaitingCall call) {
  call.number = ++last_number_;
  named_count_ += call.named_count();
  deadlines_.emplace(call.deadline, call.id);
  for (const BlockRef& ref : call.release) offers_.emplace(ref.block, call.number);
  const bool is_new = places_.emplace(call.id, Place{call.queue, call.number}).second;
  KVPOOL_CHECK(is_new);
  auto& queue = queues_[static_cast<size_t>(call.queue)];
  return queue.emplace(last_number_, std::move(call)).first->second;
}

WaitingCall WaitQueues::Remove(PendingId id) {
  const auto place = places_.find(id);
  KVPOOL_CHECK(place != places_.end());
  auto& queue = queues_[static_cast<size_t>(place->second.queue)];
  const auto found = queue.find(place->second.number);
  WaitingCall call = std::move(found->second);
  queue.erase(found);
  for (const BlockRef& ref : call.release) offers_.erase({ref.block, call.number});
  named_count_ -= call.named_count();
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
  call.id = by;
  call.deadline = deadline;
}

WaitingCall* WaitQueues::Find(PendingId id) {
  const auto place = places_.find(id);
  if (place == places_.end()) return nullptr;
  return &queues_[static_cast<size_t>(place->second.queue)].at(place->second.number);
}

WaitingCall& WaitQueues::at(uint64_t number) {
  const auto found = queues_[0].find(number);
  return found != queues_[0].end() ? found->second : queues_[1].at(number);
}

std::vector<uint64_t> WaitQueues::Offering(BlockId block) const {
  std::vector<uint64_t> numbers;
  for (auto offer = offers_.lower_bound({block, 0});
       offer != offers_.end() && offer->first == block; ++offer) {
    numbers.push_back(offer->second);
  }
  return numbers;
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

std::optional<std::pair<TimePoint, PendingId>> WaitQueues::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return *deadlines_.begin();
}

}  // namespace kvpool
