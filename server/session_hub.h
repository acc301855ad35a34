#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "core/mutex.h"
#include "core/pool.h"
#include "kvpool/v1/block.pb.h"
#include "server/process_table.h"

namespace kvpool::server {

// The stream that a session is attached to, as the hub sees it. Calls must not block, and come on
// any thread, never two at once for one stream.
class SessionStream {
 public:
  virtual ~SessionStream() = default;
  virtual void Send(const v1::Notice& notice) = 0;
  // The session ended, or the daemon does: the stream is to end with `status` after what was sent.
  virtual void End(const absl::Status& status) = 0;
};

// SessionHub keeps what the daemon itself knows of sessions, beside the ledgers: which pool a
// session is of, which stream it is attached to, and which processes it keeps watched.
//
// It is every pool's observer. An entry lives from Add until the ledger has forgotten the
// session. Thread-safe.
class SessionHub final : public PoolObserver {
 public:
  SessionHub() = default;
  SessionHub(const SessionHub&) = delete;
  SessionHub& operator=(const SessionHub&) = delete;

  // Before the pool is asked to open `session`, so that no event can come too early; Forget where
  // that then fails.
  void Add(const SessionId& session, std::shared_ptr<Pool> pool,
           std::shared_ptr<const Process> process);
  void Forget(const SessionId& session);

  // Keeps `process` known while the session may claim in its name.
  void AddProcess(const SessionId& session, std::shared_ptr<const Process> process);

  // Null where there is no such session, ended ones that still claim included.
  std::shared_ptr<Pool> FindPool(const SessionId& session) const;

  // The sessions whose whole id begins with `prefix` (1 to 32 lower-case hex digits).
  std::vector<SessionId> FindByPrefix(absl::string_view prefix) const;

  // The weakest proof among the session's processes.
  ReclaimProof Proof(const SessionId& session) const;

  // `stream` gets the session's notices from now on. It must call DropStream before it goes.
  void SetStream(const SessionId& session, std::shared_ptr<SessionStream> stream);
  void DropStream(const SessionId& session, const SessionStream* stream);

  // Sends to every stream, or ends every one.
  void SendAll(const v1::Notice& notice);
  void EndAll(const absl::Status& status);

  void OnSessionEnded(const SessionId& session, SessionEnd reason) override;
  void OnSessionForgotten(const SessionId& session) override;
  void OnMemberGone(const SessionId& session) override;

 private:
  struct Entry {
    std::shared_ptr<Pool> pool;
    std::vector<std::shared_ptr<const Process>> processes;
    std::shared_ptr<SessionStream> stream;
  };

  mutable Mutex mutex_;
  absl::flat_hash_map<SessionId, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kvpool::server
