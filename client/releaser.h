#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"

#include "client/runtime.h"
#include "core/ids.h"
#include "core/mutex.h"

namespace kvpool::client {

// Gives references back in the background, in batches. A batch that is refused for one of its
// entries is sent again without it, so that one wrong entry keeps no others. Thread-safe.
class Releaser {
 public:
  // Sends one batch and waits for the answer: OK, or what could not be given back and why.
  using Send = std::function<absl::Status(std::span<const BlockRef>)>;
  // Told of each failure, on the releaser's thread, which holds no lock then.
  using OnFailure = std::function<void(std::span<const BlockRef>, const absl::Status&)>;

  // Sends at most `max_batch` at once. Requires max_batch > 0.
  Releaser(size_t max_batch, Send send, OnFailure on_failure, Runtime& runtime);

  Releaser(const Releaser&) = delete;
  Releaser& operator=(const Releaser&) = delete;
  ~Releaser();

  // Takes a reference to give back. Does not wait. Once stopped, does nothing.
  void Add(BlockRef ref);

  // Waits until what was added before is answered, or the releaser is stopped.
  void Wait();
  // Wait(), and the first failure since the last Flush.
  absl::Status Flush();

  // Drops what is not sent yet and tells of no failure any more. Does not wait.
  void Stop();
  // Waits for the thread's end. Requires Stop, and is called once.
  void Join();

 private:
  void Run();
  // Sends `batch` until all of it is given back or failed.
  void SendBatch(std::vector<BlockRef> batch);
  void Fail(std::span<const BlockRef> refs, const absl::Status& status);
  bool is_stopped();

  const size_t max_batch_;
  const Send send_;
  const OnFailure on_failure_;

  Mutex mutex_;
  const std::unique_ptr<Runtime::Condition> changed_;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<BlockRef> pending_ ABSL_GUARDED_BY(mutex_);
  uint64_t added_count_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t answered_count_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status first_failure_ ABSL_GUARDED_BY(mutex_);

  std::unique_ptr<Runtime::Thread> thread_;  // Null once it is joined.
};

}  // namespace kvpool::client
