#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "client/mapped_session.h"
#include "client/mapping.h"
#include "client/options.h"
#include "core/ids.h"

namespace kvpool::client {

struct ClientCore;
class KeptSessionCore;

// What became of a kept session that was lost.
struct SessionChange {
  // Why the session before ended: NOT_FOUND, SESSION_UNKNOWN, and how. All that it held is gone,
  // what was computed in its blocks since is void, and its leases are empty names.
  absl::Status lost;
  // The new session, at other addresses; or why there will never be one.
  absl::StatusOr<std::shared_ptr<MappedSession>> now;
};

// What a session is kept with.
struct KeptSessionOptions {
  // `join` must be unset: the session to join ends with the daemon. `on_notice` is told kLost as
  // soon as a session is lost, which is when to stop using its memory.
  SessionOptions session{};
  // What is mapped of each session.
  std::vector<uint32_t> shards = {0};
  Mapping::Access access = Mapping::Access::kReadWrite;
  // How long it tries to re-attach after a loss. 0 and less: not at all, a loss is for good.
  Duration reattach_for = Duration::max();
  // Called once a loss, on a thread of the kept session's, before Current() returns the new
  // session; must not close or destroy the kept session. A session that is lost meanwhile is told
  // of by a next call.
  std::function<void(const SessionChange&)> on_change{};
};

// A session that outlives its daemon, by another one: where it is lost (the daemon ended or
// restarted, this process was stopped for longer than the pings wait, an operator ended it), a
// thread of its own opens a new session and maps its memory. A daemon that drains keeps it until
// its end.
//
// It lets go of what is lost at once. Whoever else holds it keeps its memory mapped, for unmapping
// it under their feet would crash them; on a GPU that keeps the old daemon's memory from the new
// one. So take Current() for a step, and let it go when the step's device work is complete.
//
// Attempts go on with pauses of at most a quarter of a second, shortened by chance. What another
// attempt would not change is for good: INVALID_ARGUMENT; UNIMPLEMENTED; PERMISSION_DENIED for a
// second on end (a daemon that starts makes its socket first, and then opens it to others);
// FAILED_PRECONDITION, DEVICE, PID_COLLISION or LAYOUT_MISMATCH: a pool whose fingerprint is not
// the first session's. All else may pass, NOT_FOUND too: somebody may create the pool yet. An
// attempt whose answer was lost may leave a session that ends by its ttl.
//
// Thread-safe, but for destruction. In a forked child every call is FAILED_PRECONDITION.
class KeptSession {
 public:
  KeptSession(const KeptSession&) = delete;
  KeptSession& operator=(const KeptSession&) = delete;
  // Close(), its answer dropped.
  ~KeptSession();

  // The session that lives, and its memory, waiting for it up to `wait`. Errors: UNAVAILABLE, it is
  // lost and not re-attached yet, with what the last attempt met; where it never will be, as
  // SessionChange::now says; NOT_FOUND, SESSION_UNKNOWN, the kept session is closed.
  absl::StatusOr<std::shared_ptr<MappedSession>> Current(Duration wait = {});

  // Ends keeping, and the session as Session::Close does, which whoever holds it then has as one
  // that is closed. Waits for a call of on_change under way; there is none after. Returns within
  // ClientOptions::close_timeout and what a daemon that hangs takes of a mapping under way. OK
  // also where there is no session; else as Session::Close.
  absl::Status Close();

 private:
  friend class Client;
  explicit KeptSession(std::shared_ptr<KeptSessionCore> core);

  static absl::StatusOr<std::unique_ptr<KeptSession>> Open(std::shared_ptr<ClientCore> client,
                                                           KeptSessionOptions options);

  const std::shared_ptr<KeptSessionCore> core_;
};

}  // namespace kvpool::client
