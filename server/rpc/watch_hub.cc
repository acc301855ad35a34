#include "server/rpc/watch_hub.h"

#include "absl/strings/str_cat.h"

#include "core/check.h"
#include "core/error.h"

namespace kvpool::server {

absl::Status WatchHub::Add(const std::shared_ptr<WatchSink>& stream, ProcessId process) {
  const MutexLock lock(mutex_);
  if (entries_.size() >= kMaxWatches) {
    return MakeError(absl::StatusCode::kResourceExhausted, {.reason = Reason::kLimit},
                     absl::StrCat(kMaxWatches, " streams watch prefixes, which is the most"));
  }
  size_t& count = counts_[process];
  if (count >= kMaxProcessWatches) {
    return MakeError(absl::StatusCode::kResourceExhausted, {.reason = Reason::kLimit},
                     absl::StrCat(kMaxProcessWatches,
                                  " streams of this process watch prefixes, which is the most"));
  }
  ++count;
  entries_[stream.get()] = {.stream = stream, .process = process};
  return absl::OkStatus();
}

void WatchHub::Remove(const WatchSink* stream) {
  const MutexLock lock(mutex_);
  const auto entry = entries_.find(stream);
  KVPOOL_CHECK(entry != entries_.end());
  const auto count = counts_.find(entry->second.process);
  if (--count->second == 0) counts_.erase(count);
  entries_.erase(entry);
}

void WatchHub::Tick(TimePoint now) {
  {
    const MutexLock lock(mutex_);
    if (now < next_beat_) return;
    next_beat_ = now + kHeartbeatInterval;
  }
  for (const std::shared_ptr<WatchSink>& stream : Streams()) stream->Beat();
}

void WatchHub::EndAll(const absl::Status& status) {
  for (const std::shared_ptr<WatchSink>& stream : Streams()) stream->End(status);
}

size_t WatchHub::size() const {
  const MutexLock lock(mutex_);
  return entries_.size();
}

std::vector<std::shared_ptr<WatchSink>> WatchHub::Streams() const {
  std::vector<std::shared_ptr<WatchSink>> streams;
  const MutexLock lock(mutex_);
  streams.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) {
    // One that is null is being destroyed: it is about to call Remove.
    if (std::shared_ptr<WatchSink> stream = entry.stream.lock()) {
      streams.push_back(std::move(stream));
    }
  }
  return streams;
}

}  // namespace kvpool::server
