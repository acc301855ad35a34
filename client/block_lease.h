#pragma once

#include <memory>

#include "absl/status/status.h"

#include "core/ids.h"

namespace kvpool::client {

class LeasedReference;

// One reference that a session holds on a block, shared by this lease and its forks: the daemon
// knows of one, and it is given back when the last of them ends.
//
// Ending by destruction never blocks and never fails: a thread of the session's gives the
// reference back in batches (Session::Flush waits for it). Once the session has ended, a lease
// is an empty name and ending it does nothing.
//
// Move-only. A lease belongs to one thread at a time; forks of one lease may be on many.
class BlockLease {
 public:
  // Holds nothing.
  BlockLease() = default;
  BlockLease(BlockLease&& other) noexcept;
  BlockLease& operator=(BlockLease&& other) noexcept;
  ~BlockLease();

  // Another handle on the same reference; no call is made. Empty where this lease is.
  BlockLease Fork() const;

  // Ends this lease; where it was the last, gives the reference back and returns the answer.
  // OK where forks remain, where it holds nothing, and where the session has ended.
  // Errors: FAILED_PRECONDITION, NOT_HELD, or in a forked child; UNAVAILABLE or
  // DEADLINE_EXCEEDED: no answer, and the session may hold the reference until it ends.
  absl::Status Release();

  bool is_empty() const { return reference_ == nullptr; }

  // Require a lease that is not empty. `ref` is what to hand to another worker of the tenant, by
  // any way there is, as two numbers: a uint32_t (`ToIndex(ref.block)`) and a uint64_t
  // (`static_cast<uint64_t>(ref.generation)`). With `{BlockId{first}, Generation{second}}` that
  // worker's Session::IncRef takes a reference of its own. Until it has, this lease must live: else
  // the block may be another's, which IncRef refuses as STALE_BLOCK or NOT_LIVE.
  BlockId id() const;
  Generation generation() const;
  BlockRef ref() const;

 private:
  friend class Session;
  explicit BlockLease(std::shared_ptr<LeasedReference> reference);

  std::shared_ptr<LeasedReference> reference_;
};

}  // namespace kvpool::client
