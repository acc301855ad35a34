#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ids.h"
#include "core/ledger/slots.h"

namespace kvpool {

// DeadlineQueue keeps at most one deadline a session and tells which is next.
//
// It is a heap that knows where each session's entry lies, so that a deadline that moves leaves
// nothing behind: memory is bounded by sessions, and the front is exact.
class DeadlineQueue {
 public:
  struct Entry {
    TimePoint time;
    uint64_t order = 0;  // Among equal times the lower goes first.
    SessionSlot session{};
  };

  DeadlineQueue() = default;
  DeadlineQueue(const DeadlineQueue&) = delete;
  DeadlineQueue& operator=(const DeadlineQueue&) = delete;

  // Sets or moves the deadline of `entry.session`.
  void Set(const Entry& entry);
  // Nothing happens where it has none.
  void Clear(SessionSlot session);

  // The earliest deadline.
  std::optional<Entry> front() const;
  std::optional<TimePoint> time(SessionSlot session) const;

 private:
  static constexpr uint32_t kAbsent = UINT32_MAX;

  static bool IsBefore(const Entry& a, const Entry& b) {
    return a.time != b.time ? a.time < b.time : a.order < b.order;
  }
  void Place(uint32_t index, const Entry& entry);
  void SiftUp(uint32_t index);
  void SiftDown(uint32_t index);

  std::vector<Entry> heap_;
  std::vector<uint32_t> positions_;  // In `heap_`, by session.
};

}  // namespace kvpool
