#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "client/session_core.h"
#include "core/ids.h"

namespace kvpool::client {

// One of the daemon's references, and how many leases share it. Thread-safe.
class LeasedReference {
 public:
  // Begins with one lease.
  LeasedReference(std::shared_ptr<SessionCore> session, BlockRef ref)
      : session_(std::move(session)), ref_(ref) {}

  void AddLease() { lease_count_.fetch_add(1, std::memory_order_relaxed); }
  // Returns whether it was the last. What the leases' threads did before is then visible here.
  bool EndLease() { return lease_count_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  bool is_shared() const { return lease_count_.load(std::memory_order_acquire) > 1; }

  SessionCore& session() { return *session_; }
  const BlockRef& ref() const { return ref_; }

 private:
  const std::shared_ptr<SessionCore> session_;
  const BlockRef ref_;
  std::atomic<uint32_t> lease_count_{1};
};

}  // namespace kvpool::client
