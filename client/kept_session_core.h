#pragma once

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "client/cancellation.h"
#include "client/client_core.h"
#include "client/fork_guard.h"
#include "client/kept_session.h"
#include "client/mapped_session.h"
#include "client/runtime.h"
#include "client/session_opener.h"
#include "core/ids.h"
#include "core/mutex.h"

namespace kvpool::client {

// What a KeptSession is: a thread that waits for the end of one session after the other. Held by
// MakeForkSafe pointers; sessions know it by a weak one, since they may outlive it. Thread-safe.
class KeptSessionCore : public std::enable_shared_from_this<KeptSessionCore> {
 public:
  KeptSessionCore(std::shared_ptr<ClientCore> client, KeptSessionOptions options);

  KeptSessionCore(const KeptSessionCore&) = delete;
  KeptSessionCore& operator=(const KeptSessionCore&) = delete;
  // Requires Close, or that Open has failed: a session's thread may then be the last to hold this.
  ~KeptSessionCore() = default;

  // Opens and maps the first session, and begins to keep it. Called once, before anything else.
  absl::Status Open();

  // As those of KeptSession.
  absl::StatusOr<std::shared_ptr<MappedSession>> Current(Duration wait);
  absl::Status Close();

 private:
  using MaybeMapped = absl::StatusOr<std::shared_ptr<MappedSession>>;

  // The session's options, with what wakes the thread once it is lost.
  SessionOptions WatchedOptions();
  MaybeMapped Map(absl::StatusOr<std::unique_ptr<Session>> session) const;

  void Run();
  // Waits until the session has ended and lets go of it: why it has. Nothing once closed.
  std::optional<absl::Status> AwaitLoss();
  // The next session, or why there will be none. Once closed: any of the two.
  MaybeMapped Reattach(const absl::Status& lost);
  // Whether the answer of an attempt at `now` stands.
  bool IsForGood(const absl::Status& status, TimePoint now);
  // Takes note of the session's end, if it has ended.
  void NoteLoss() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake();

  const ForkGuard fork_guard_;
  const std::shared_ptr<ClientCore> client_;
  const KeptSessionOptions options_;
  Cancellation cancellation_;  // Of attempts.

  // From Open on, the thread's.
  std::optional<SessionOpener> opener_;
  std::optional<TimePoint> denied_since_;  // That attempts have met PERMISSION_DENIED.

  Mutex mutex_;
  const std::unique_ptr<Runtime::Condition> changed_;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Null while there is none.
  std::shared_ptr<MappedSession> current_ ABSL_GUARDED_BY(mutex_);
  // Was it until it ended; null once the thread has taken note.
  std::shared_ptr<MappedSession> lost_ ABSL_GUARDED_BY(mutex_);
  // Why there is no session: UNAVAILABLE while there may be one yet.
  absl::Status absence_ ABSL_GUARDED_BY(mutex_);

  std::unique_ptr<Runtime::Thread> thread_;  // Set by Open.
};

}  // namespace kvpool::client
