#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "core/ids.h"
#include "core/ledger/status.h"

namespace kvpool {

// What made something happen to a block.
struct Cause {
  absl::string_view name;  // The RPC, or the daemon's own reason. A literal.
  SessionId session;
  TimePoint time;
};

// BlockTrace keeps the last 24 events of every block: 1.2 KB for each that has had one.
class BlockTrace {
 public:
  BlockTrace() = default;
  BlockTrace(const BlockTrace&) = delete;
  BlockTrace& operator=(const BlockTrace&) = delete;

  void Record(BlockId block, TraceOperation operation, uint32_t ref_count_after,
              const Cause& cause);

  // Oldest first.
  std::vector<TraceEvent> History(BlockId block) const;

  // `alloc->1 @Alloc:1a2b3c4d | dec->0 @DecRef:1a2b3c4d`; empty where nothing has happened.
  std::string Line(BlockId block) const;

 private:
  static constexpr size_t kEvents = 24;

  struct Event {
    TraceOperation operation{};
    uint32_t ref_count_after = 0;
    Cause cause;
  };
  struct Ring {
    std::array<Event, kEvents> events;
    uint64_t count = 0;  // Of all events ever: the next goes to count % kEvents.
  };

  std::vector<std::unique_ptr<Ring>> rings_;  // By block.
};

}  // namespace kvpool
