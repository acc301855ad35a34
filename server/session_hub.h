#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
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
  // `on_change` is called, without the mutex, whenever a session is added or ends: time has
  // something to do then. It must not block.
  explicit SessionHub(std::function<void()> on_change = [] {}) : on_change_(std::move(on_change)) {}

  SessionHub(const SessionHub&) = delete;
  SessionHub& operator=(const SessionHub&) = delete;

  // Before the pool is asked to open `session`, so that no event can come too early; Forget where
  // that then fails.
  void Add(const SessionId& session, std::shared_ptr<Pool> pool,
           std::shared_ptr<const Process> process);
  void Forget(const SessionId& session);

  // Keeps `process` known while the session may claim in its name.
  void AddProcess(const SessionId& session, std::shared_ptr<const Process> process);

  // Null where there is no such session. Ended ones that still claim are there.
  std::shared_ptr<Pool> FindPool(const SessionId& session) const;

  // The sessions whose whole id begins with `prefix` (at most 32 lower-case hex digits), ascending.
  std::vector<SessionId> FindByPrefix(absl::string_view prefix) const;

  // The weakest proof among the session's processes.
  ReclaimProof Proof(const SessionId& session) const;

  // `stream` gets the session's notices from now on, and first what SendAll told the others. Where
  // the session has ended by now, it is ended at once. Called after Pool::Attach allowed it. It
  // must call DropStream before it goes.
  void SetStream(const SessionId& session, std::shared_ptr<SessionStream> stream);
  void DropStream(const SessionId& session, const SessionStream* stream);

  // Entries: sessions that live, and those that ended and may still claim.
  size_t size() const;
  // Those that live.
  size_t live_count() const;

  // Sends to the session's stream, if it has one.
  void Send(const SessionId& session, const v1::Notice& notice);
  // Sends to every stream (those set later, too).
  void SendAll(const v1::Notice& notice);
  // Ends every stream. Logs each session that lives, attached or not: it is cut off.
  void EndAll(const absl::Status& status);

  void OnSessionEnded(const SessionId& session, SessionEnd reason) override;
  void OnSessionForgotten(const SessionId& session) override;
  void OnMemberGone(const SessionId& session) override;

 private:
  // A stream, and the mutex that keeps its calls apart and in order. Nothing follows its end.
  class Slot {
   public:
    explicit Slot(std::shared_ptr<SessionStream> stream) : stream_(std::move(stream)) {}

    void Send(const v1::Notice& notice);
    void End(const absl::Status& status);

    const SessionStream* stream() const { return stream_.get(); }

   private:
    const std::shared_ptr<SessionStream> stream_;
    Mutex mutex_;
    bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  };

  struct Entry {
    std::shared_ptr<Pool> pool;
    std::vector<std::shared_ptr<const Process>> processes;
    std::shared_ptr<Slot> slot;     // Null: no stream, or none any more.
    std::optional<SessionEnd> end;  // How it ended, if it did.
  };

  std::vector<std::shared_ptr<Slot>> Slots() const;
  void LogLive() const;
  std::optional<v1::Notice> StandingNotice() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<void()> on_change_;

  mutable Mutex mutex_;
  absl::flat_hash_map<SessionId, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  absl::btree_set<SessionId> by_id_ ABSL_GUARDED_BY(mutex_);  // Those that have entries.
  // What SendAll sent last, and when.
  std::optional<v1::Notice> standing_notice_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point standing_time_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kvpool::server
