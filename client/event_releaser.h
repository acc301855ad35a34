#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"

#include "client/block_lease.h"
#include "client/runtime.h"
#include "core/ids.h"
#include "core/mutex.h"

namespace kvpool::client {

// Ends leases once events are done: a thread that waits for one after the other, in the order in
// which they came. Leases whose event fails are kept until it is joined, since their blocks may
// still be touched. Thread-safe.
class EventReleaser {
 public:
  // A CUevent, of a context of a device's.
  struct Event {
    std::string device_uuid;
    void* handle = nullptr;
  };
  // Waits for an event; CANCELLED once `stop` says so.
  using Await = std::function<absl::Status(const Event& event, std::stop_token stop)>;
  // Told of each failure, on the thread, which holds no lock then.
  using OnFailure = std::function<void(std::span<const BlockRef>, const absl::Status&)>;

  // Starts no thread yet.
  EventReleaser(Await await, OnFailure on_failure, Runtime& runtime);

  EventReleaser(const EventReleaser&) = delete;
  EventReleaser& operator=(const EventReleaser&) = delete;
  // Stop and Join.
  ~EventReleaser();

  // Takes leases, empty ones too, that end when `event` is done. Does not wait. Once stopped, they
  // end at once.
  void Add(Event event, std::vector<BlockLease> leases);

  // Ends the wait for an event, and what is not waited for yet. Does not wait.
  void Stop();
  // Requested once Stop is.
  std::stop_token stop_token() const { return stop_.get_token(); }
  // Waits for the thread's end, and ends every lease. Requires Stop.
  void Join();

 private:
  struct Entry {
    Event event;
    std::vector<BlockLease> leases;
  };

  void Run();
  void Fail(Entry entry, const absl::Status& status);

  const Await await_;
  const OnFailure on_failure_;
  Runtime& runtime_;
  std::stop_source stop_;

  Mutex mutex_;
  const std::unique_ptr<Runtime::Condition> changed_;
  std::deque<Entry> pending_ ABSL_GUARDED_BY(mutex_);
  std::vector<Entry> kept_ ABSL_GUARDED_BY(mutex_);  // Their events failed.
  // Started by the first Add.
  std::unique_ptr<Runtime::Thread> thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kvpool::client
