#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

#include "core/ids.h"
#include "core/mutex.h"

namespace kvpool::server {

// How often a stream that has nothing to tell says so: a listener knows within that time that it
// has missed nothing, and gRPC that somebody listens.
inline constexpr Duration kHeartbeatInterval = std::chrono::seconds(10);

// Streams of a process, and of all, that watch prefixes.
inline constexpr size_t kMaxProcessWatches = 32;
inline constexpr size_t kMaxWatches = 256;

// A stream that watches, as the hub sees it. Calls must not block, and come on any thread.
class WatchSink {
 public:
  virtual ~WatchSink() = default;
  // To say that it lives, where it has nothing else to say.
  virtual void Beat() = 0;
  // To end with `status`.
  virtual void End(const absl::Status& status) = 0;
};

// WatchHub counts the streams that watch prefixes, gives them their heartbeats, and ends them.
// Thread-safe.
class WatchHub {
 public:
  WatchHub() = default;
  WatchHub(const WatchHub&) = delete;
  WatchHub& operator=(const WatchHub&) = delete;

  // Each that succeeds is followed by one Remove. Errors: RESOURCE_EXHAUSTED (LIMIT): the process
  // has, or all have, as many as they may.
  absl::Status Add(const std::shared_ptr<WatchSink>& stream, ProcessId process);
  void Remove(const WatchSink* stream);

  // Beats for all, if it is time to. To be called as time passes.
  void Tick(TimePoint now);
  // Ends those that there are.
  void EndAll(const absl::Status& status);

  size_t size() const;

 private:
  struct Entry {
    std::weak_ptr<WatchSink> stream;
    ProcessId process{};
  };

  std::vector<std::shared_ptr<WatchSink>> Streams() const;

  mutable Mutex mutex_;
  absl::flat_hash_map<const WatchSink*, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<ProcessId, size_t> counts_ ABSL_GUARDED_BY(mutex_);
  TimePoint next_beat_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kvpool::server
