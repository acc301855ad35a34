#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"

#include "core/ids.h"
#include "server/limits.h"
#include "server/log_budget.h"
#include "server/memory_budget.h"

namespace kvpool::server {

// How the daemon knows that a process is gone. As `kvpool.v1.ReclaimProof`.
enum class ReclaimProof : uint8_t {
  kPidfd,  // Its pidfd became readable.
  kDelay,  // Only a delay after its last connection closed: the kernel gives no pidfd.
};

// A process that has connected. Held by shared_ptr by its connections and by the sessions whose
// process it is; forgotten when nobody holds it. Immutable but for its being gone, what its calls
// hold and what is logged of them; thread-safe.
class Process {
 public:
  Process(ProcessId id, pid_t pid, uid_t uid, ReclaimProof proof)
      : id_(id), pid_(pid), uid_(uid), proof_(proof) {}

  ProcessId id() const { return id_; }
  // As the daemon's pid namespace sees it; 0 where it cannot.
  pid_t pid() const { return pid_; }
  uid_t uid() const { return uid_; }
  ReclaimProof proof() const { return proof_; }

  // Whether it is known to be gone; once so, for ever. True before OnGone is called for it: who
  // has just made it a session's process and finds it gone tells the pool so (Pool::ProcessGone),
  // as OnGone may have come too early for that session.
  bool is_gone() const { return is_gone_.load(std::memory_order_seq_cst); }
  // For ProcessTable.
  void MarkGone() const { is_gone_.store(true, std::memory_order_seq_cst); }

  // What its calls in progress hold, of kMaxProcessCallBytes.
  MemoryBudget& call_memory() const { return call_memory_; }
  // Of lines about its calls that were refused.
  LogBudget& log_budget() const { return log_budget_; }

 private:
  const ProcessId id_;
  const pid_t pid_;
  const uid_t uid_;
  const ReclaimProof proof_;
  mutable std::atomic<bool> is_gone_{false};
  mutable MemoryBudget call_memory_{kMaxProcessCallBytes};
  mutable LogBudget log_budget_;
};

// ProcessTable knows the processes at the other ends of unix sockets and tells when one is gone.
//
// Two connections of one process lead to one Process where that can be proved (the same pidfd
// inode on Linux 6.9 and later, else the same pid and start time); else to two, which is safe.
// One thread waits on all pidfds. Thread-safe.
class ProcessTable {
 public:
  // Called once for each process that is gone, on the table's thread. Must not block.
  using OnGone = std::function<void(ProcessId)>;

  // `reclaim_delay`: with kDelay, how long after a process's last connection closed it counts as
  // gone. `use_pidfd` false behaves as a kernel without pidfds.
  static absl::StatusOr<std::unique_ptr<ProcessTable>> Create(Duration reclaim_delay,
                                                              bool use_pidfd, OnGone on_gone);
  virtual ~ProcessTable() = default;

  // The process that connected `socket`, by SO_PEERCRED and SO_PEERPIDFD (else pidfd_open of a
  // visible pid, checked against a reused one). NOT_FOUND where it is gone already.
  virtual absl::StatusOr<std::shared_ptr<const Process>> FromSocket(int socket) = 0;

  // A connection of `process` opened or closed; each open is followed by one close.
  virtual void ConnectionOpened(const Process& process) = 0;
  virtual void ConnectionClosed(const Process& process) = 0;

  // The weakest among the processes seen.
  virtual ReclaimProof weakest_proof() const = 0;
};

}  // namespace kvpool::server
