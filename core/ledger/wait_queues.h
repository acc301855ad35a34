#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "core/ledger/calls.h"
#include "core/ledger/references.h"
#include "core/ledger/slots.h"

namespace kvpool {

// A call that waits for room. It holds nothing.
struct WaitingCall {
  PendingId id{};
  SessionSlot session{};
  WaitQueue queue{};
  uint32_t count = 0;
  Fill fill{};
  std::vector<BlockRef> release;
  std::optional<PrefixKeys> prefix{};  // Of an Acquire.
  uint32_t max_new_blocks = 0;
  uint64_t key = 0;
  uint64_t request = 0;  // A hash of the call.
  TimePoint deadline;
  bool has_guarantee = false;  // Its session has one.
  uint64_t number = 0;         // Counts calls that ever waited: tells which came first.

  // What dropping `release` would do; absent where that may have changed.
  std::optional<absl::StatusOr<DropEffect>> effect;

  // Blocks and keys that it keeps.
  size_t named_count() const {
    return release.size() + (prefix.has_value() ? prefix->blocks.size() : 0);
  }
};

// WaitQueues keeps the waiting calls, each queue in order of arrival.
class WaitQueues {
 public:
  WaitQueues() = default;
  WaitQueues(const WaitQueues&) = delete;
  WaitQueues& operator=(const WaitQueues&) = delete;

  // Numbers the call; what is returned stays until the call is removed.
  WaitingCall& Add(WaitingCall call);
  // Requires that the call waits.
  WaitingCall Remove(PendingId id);
  // Another call takes the place of a waiting one.
  void Replace(PendingId id, PendingId by, TimePoint deadline);
  // Null where no such call waits.
  WaitingCall* Find(PendingId id);
  // Requires that the call waits.
  WaitingCall& at(uint64_t number);
  // The numbers of the calls that offer the block in their `release`, in order of arrival.
  std::vector<uint64_t> Offering(BlockId block) const;

  // The call whose turn it is; null where none waits.
  WaitingCall* front();
  // Whether `call`, which waits, is the one whose turn it is.
  bool is_front(const WaitingCall& call) { return front() == &call; }
  // Whether nobody waits in `queue` or in one before it.
  bool is_clear(WaitQueue queue) const;

  // The call whose wait ends first, and when; of several, that with the lowest id.
  std::optional<std::pair<TimePoint, PendingId>> next_deadline() const;

  // Of all calls.
  size_t named_count() const { return named_count_; }
  uint32_t size() const { return static_cast<uint32_t>(places_.size()); }

 private:
  // Where a call stands. The lower came first.
  struct Place {
    WaitQueue queue{};
    uint64_t number = 0;
  };

  std::array<std::map<uint64_t, WaitingCall>, 2> queues_;
  absl::flat_hash_map<PendingId, Place> places_;
  std::set<std::pair<BlockId, uint64_t>> offers_;  // With the call's number.
  std::set<std::pair<TimePoint, PendingId>> deadlines_;
  size_t named_count_ = 0;
  uint64_t last_number_ = 0;
};

}  // namespace kvpool
