#include "core/ledger/deadline_queue.h"

namespace kvpool {

void DeadlineQueue::Set(const Entry& entry) {
  const uint32_t slot = ToIndex(entry.session);
  if (slot >= positions_.size()) positions_.resize(slot + 1, kAbsent);
  uint32_t index = positions_[slot];
  if (index == kAbsent) {
    index = static_cast<uint32_t>(heap_.size());
    heap_.push_back(entry);
  }
  Place(index, entry);
  SiftUp(index);
  SiftDown(positions_[slot]);
}

void DeadlineQueue::Clear(SessionSlot session) {
  const uint32_t slot = ToIndex(session);
  if (slot >= positions_.size() || positions_[slot] == kAbsent) return;
  const uint32_t index = positions_[slot];
  positions_[slot] = kAbsent;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (last.session == session) return;
  Place(index, last);
  SiftUp(index);
  SiftDown(positions_[ToIndex(last.session)]);
}

std::optional<DeadlineQueue::Entry> DeadlineQueue::front() const {
  if (heap_.empty()) return std::nullopt;
  return heap_.front();
}

std::optional<TimePoint> DeadlineQueue::time(SessionSlot session) const {
  const uint32_t slot = ToIndex(session);
  if (slot >= positions_.size() || positions_[slot] == kAbsent) return std::nullopt;
  return heap_[positions_[slot]].time;
}

void DeadlineQueue::Place(uint32_t index, const Entry& entry) {
  heap_[index] = entry;
  positions_[ToIndex(entry.session)] = index;
}

void DeadlineQueue::SiftUp(uint32_t index) {
  const Entry entry = heap_[index];
  while (index > 0) {
    const uint32_t parent = (index - 1) / 2;
    if (!IsBefore(entry, heap_[parent])) break;
    Place(index, heap_[parent]);
    index = parent;
  }
  Place(index, entry);
}

void DeadlineQueue::SiftDown(uint32_t index) {
  const Entry entry = heap_[index];
  const auto size = static_cast<uint32_t>(heap_.size());
  for (uint32_t child = 2 * index + 1; child < size; child = 2 * index + 1) {
    if (child + 1 < size && IsBefore(heap_[child + 1], heap_[child])) ++child;
    if (!IsBefore(heap_[child], entry)) break;
    Place(index, heap_[child]);
    index = child;
  }
  Place(index, entry);
}

}  // namespace kvpool
