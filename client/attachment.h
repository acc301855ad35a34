#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"

#include "client/cancellation.h"
#include "client/runtime.h"
#include "client/transport.h"
#include "core/ids.h"
#include "core/mutex.h"

namespace kvpool::client {

// Keeps a session attached: a thread that reads the session's KeepAlive stream. Thread-safe.
class Attachment {
 public:
  // Each notice after the first, and then how the stream of a session that was attached ended;
  // both on the attachment's thread.
  using OnNotice = std::function<void(const v1::Notice&)>;
  using OnEnd = std::function<void(const absl::Status&)>;

  Attachment(OnNotice on_notice, OnEnd on_end, Runtime& runtime);

  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;
  ~Attachment();

  // Opens the stream. Called once; `transport` outlives the attachment.
  void Start(Transport& transport, const SessionId& session);

  // Waits until the daemon says that the session is attached. DEADLINE_EXCEEDED where it does not
  // in time; else how the stream ended.
  absl::Status WaitUntilAttached(Duration timeout);

  bool has_ended();

  // Ends the stream. Does not wait.
  void Cancel();
  // Waits for the thread's end. Requires Start and Cancel, and is called once.
  void Join();

 private:
  void Run(Transport& transport, const SessionId& session);

  const OnNotice on_notice_;
  const OnEnd on_end_;
  Runtime& runtime_;
  Cancellation cancellation_;

  Mutex mutex_;
  const std::unique_ptr<Runtime::Condition> changed_;
  bool is_attached_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);

  std::unique_ptr<Runtime::Thread> thread_;  // Set from Start until it is joined.
};

}  // namespace kvpool::client
