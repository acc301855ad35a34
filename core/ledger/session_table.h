#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

#include "core/ledger/deadline_queue.h"
#include "core/ledger/session.h"
#include "core/ledger/tenant_table.h"

namespace kvpool {

// SessionTable owns the sessions and finds them by id, by slot and by process. It keeps when each
// falls due: a live unattached one expires, an ended one's claims end.
class SessionTable {
 public:
  // `tenants` must outlive it.
  explicit SessionTable(TenantTable& tenants) : tenants_(tenants) {}

  SessionTable(const SessionTable&) = delete;
  SessionTable& operator=(const SessionTable&) = delete;

  // Requires an unknown id, and that the session to join (kNoSession: none) is live.
  Session& Open(const OpenSessionCall& call, Duration ttl, SessionSlot parent, TimePoint now);
  // The session is not live from now on.
  void MarkEnded(Session& session, SessionEnd reason);
  // Forgets the session. Requires that it holds, claims and awaits nothing.
  void Erase(Session& session);

  // Null where there is nothing (left) of such a session.
  Session* Find(const SessionId& id);
  const Session* Find(const SessionId& id) const;
  bool has(SessionSlot slot) const { return slots_[ToIndex(slot)] != nullptr; }
  Session& at(SessionSlot slot) { return *slots_[ToIndex(slot)]; }
  const Session& at(SessionSlot slot) const { return *slots_[ToIndex(slot)]; }

  // Errors: NOT_FOUND (SESSION_UNKNOWN) and PERMISSION_DENIED; ended ones are found too.
  absl::StatusOr<Session*> FindOfTenant(const SessionId& id, absl::string_view tenant);
  // The live session, whose ttl begins anew. Errors: as above.
  absl::StatusOr<Session*> FindLive(const Caller& caller, TimePoint now);
  // Also FAILED_PRECONDITION (JOINED).
  absl::StatusOr<Session*> FindHolding(const Caller& caller, TimePoint now);
  absl::StatusOr<const Session*> PeekHolding(const Caller& caller) const;

  // INVALID_ARGUMENT where the session has no model: it cannot use the prefix cache.
  static absl::Status RequireModel(const Session& session);

  // Call between them in the session's name: it does not expire.
  void BeginRunning(Session& session);
  void EndRunning(Session& session, TimePoint now);
  // The session lives (another) ttl from now, if nothing else keeps it.
  void Touch(Session& session, TimePoint now);

  // 0 is no process.
  void AddProcess(Session& session, ProcessId process);
  // How many sessions have the process.
  size_t count(ProcessId process) const;
  // Takes the process out of its sessions and returns those, the oldest first.
  std::vector<SessionId> DropProcess(ProcessId process, TimePoint now);
  // Tells the session's parent whether it has processes to claim for, after `is_vouched` changed.
  void UpdateParent(Session& session);

  void SetDeadline(const Session& session, TimePoint time);
  void ClearDeadline(const Session& session) { deadlines_.Clear(session.slot); }
  std::optional<DeadlineQueue::Entry> next_deadline() const { return deadlines_.front(); }
  std::optional<TimePoint> deadline(const Session& session) const {
    return deadlines_.time(session.slot);
  }

  uint32_t live_count() const { return live_count_; }
  // Ended ones included.
  uint32_t size() const { return static_cast<uint32_t>(by_serial_.size()); }
  // All, the oldest first.
  const std::map<uint64_t, SessionSlot>& by_serial() const { return by_serial_; }

 private:
  TenantTable& tenants_;
  std::vector<std::unique_ptr<Session>> slots_;
  std::vector<SessionSlot> unused_;
  absl::flat_hash_map<SessionId, SessionSlot> by_id_;
  std::map<uint64_t, SessionSlot> by_serial_;
  absl::flat_hash_map<ProcessId, std::map<uint64_t, SessionSlot>> by_process_;
  DeadlineQueue deadlines_;
  uint64_t last_serial_ = 0;
  uint32_t live_count_ = 0;
};

}  // namespace kvpool
