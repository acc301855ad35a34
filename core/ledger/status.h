#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "core/ids.h"

namespace kvpool {

// What inspection is told. Values: they stay as they were when asked for.

// free + cached + held + quarantined = num_blocks, always.
struct LedgerCounts {
  uint32_t free_blocks = 0;
  uint32_t cached_blocks = 0;
  uint32_t held_blocks = 0;
  uint32_t quarantined_blocks = 0;
  uint32_t published_blocks = 0;
  uint32_t sessions = 0;  // Live ones: unattached, attached or joined.
  uint32_t waiting_calls = 0;

  bool operator==(const LedgerCounts&) const = default;
};

enum class SessionState : uint8_t {
  kUnattached,
  kAttached,
  kClosing,   // Ended; its references are being dropped.
  kClaiming,  // Ended; its processes are not all gone and may still claim blocks.
};

struct SessionInfo {
  SessionId id;
  SessionState state{};
  std::string tenant;
  std::string client_name;
  std::string model_id;
  int64_t pid = 0;
  uint32_t uid = 0;
  TimePoint open_time;
  uint32_t held_blocks = 0;  // Distinct.
  uint64_t references = 0;
  SessionId joined;             // All zero: none.
  std::vector<BlockId> blocks;  // Ascending; only where asked for.
  bool truncated = false;
  std::vector<ProcessId> processes;
};

enum class BlockState : uint8_t { kFree, kHeld, kCached, kQuarantined };

struct BlockHolder {
  SessionId session;
  std::string client_name;
  uint32_t references = 0;
};

enum class TraceOperation : uint8_t {
  kAlloc,
  kInc,
  kDec,
  kPublish,
  kAcquire,
  kEvict,
  kRelease,  // A session's end dropped it.
  kQuarantine,
  kFree,
};

// Its name in the API and in traces, such as "alloc".
absl::string_view TraceOperationName(TraceOperation operation);

struct TraceEvent {
  TraceOperation operation{};
  uint32_t ref_count_after = 0;
  std::string caller;  // The RPC and the session's first characters, or the daemon's own reason.
  TimePoint time;
};

struct BlockInfo {
  BlockId block{};
  Generation generation{};  // 0 before the first allocation.
  BlockState state{};
  uint32_t ref_count = 0;
  bool published = false;
  bool sealed = false;
  bool claimed = false;
  std::string tenant;  // Who holds it, or had it last.
  std::vector<BlockHolder> holders;
  std::vector<TraceEvent> history;  // Oldest first; empty unless tracing is on.
};

}  // namespace kvpool
