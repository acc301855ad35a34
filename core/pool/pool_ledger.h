#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/clock.h"
#include "core/ledger/ledger.h"
#include "core/mutex.h"
#include "core/pool/pool_types.h"

namespace kvpool {

// Blocks that are asked about in one hold of the mutex: some 50 us with a holder or two each.
inline constexpr uint32_t kBlocksAStep = 256;

// PoolLedger is a pool's ledger behind the pool's one mutex: calls go in under it, and what came
// of them goes out without it. Under the mutex there is nothing but the ledger's own work.
//
// Events wait in one queue, which one thread at a time delivers: whoever finds nobody at it. So
// they arrive in the order in which they happened, and a callback that calls the pool again does
// not nest another delivery in its own. Thread-safe.
class PoolLedger {
 public:
  using AllocCallback = absl::AnyInvocable<void(absl::StatusOr<AllocAnswer>)>;
  // Given the pin to end by Unpin, or why there is none.
  using PinCallback = absl::AnyInvocable<void(absl::StatusOr<PendingId>)>;
  // Told that there is more to read, on any thread; must not block.
  using WatchCallback = std::function<void()>;
  // Starts the fills of an Alloc, which end by Ledger::FillDone.
  using FillStarter = absl::AnyInvocable<void(FillNeeded)>;

  PoolLedger(const LedgerOptions& options, Clock clock, PoolObserver& observer,
             FillStarter start_fill);

  PoolLedger(const PoolLedger&) = delete;
  PoolLedger& operator=(const PoolLedger&) = delete;
  ~PoolLedger();  // Wakes those who watch.

  // Calls `call(ledger, now)` under the mutex, then delivers what happened, and returns what it
  // returned. Not for Alloc and Pin, which have callbacks.
  template <typename Call>
  std::invoke_result_t<Call, Ledger&, TimePoint> Run(Call call) {
    bool must_deliver = false;
    if constexpr (std::is_void_v<std::invoke_result_t<Call, Ledger&, TimePoint>>) {
      {
        const MutexLock lock(mutex_);
        call(ledger_, clock_());
        must_deliver = CollectEvents();
      }
      if (must_deliver) Deliver();
    } else {
      auto result = [&] {
        const MutexLock lock(mutex_);
        auto answer = call(ledger_, clock_());
        must_deliver = CollectEvents();
        return answer;
      }();
      if (must_deliver) Deliver();
      return result;
    }
  }

  // Returns what `query(ledger)` does under the mutex.
  template <typename Query>
  auto Read(Query query) const {
    const MutexLock lock(mutex_);
    return query(ledger_);
  }

  // As Pool::Alloc. `keep_alive` is held as long as the call is pending.
  PendingId Alloc(const AllocCall& call, AllocCallback done,
                  const std::shared_ptr<const void>& keep_alive);
  void Cancel(PendingId id);

  // As Ledger::Pin; `done` is called once, here where the pin need not wait.
  void Pin(const PinCall& call, PinCallback done);
  void Unpin(PendingId id);
  // Says in the same step whether the session still held `block` as the pin ended.
  absl::Status UnpinHeld(PendingId id, const Caller& caller, const BlockRef& block);

  // As PrefixWatches'. `wake` is called whenever a watch that was read to its end has more to read,
  // or will have none as the ledger goes; maybe once more while it is being closed.
  WatchId OpenWatch(const WatchCall& call, const WatchCallback& wake);
  // In one hold of the mutex: kBlocksAStep steps.
  WatchProgress ReadWatch(WatchId id, std::vector<PrefixEvent>& events);
  uint64_t WatchSequence(WatchId id) const;
  void CloseWatch(WatchId id);

  // How Pin would fail now; pins nothing.
  absl::Status CheckPin(const PinCall& call);

  // Checks that the session holds `blocks`, and fills in the generations that are not given, so
  // that what is let go and taken again later is noticed. ABORTED where that happens meanwhile.
  absl::Status PinDown(const Caller& caller, std::span<BlockRef> blocks) const;

  // The same for blocks that anybody may hold. INVALID_ARGUMENT, a block out of range or too
  // many; FAILED_PRECONDITION, NOT_LIVE; ABORTED, STALE_BLOCK.
  absl::Status PinDownLive(std::span<BlockRef> blocks) const;

 private:
  using Delivery = absl::AnyInvocable<void()>;

  struct PendingAlloc {
    AllocCallback done;
    std::shared_ptr<const void> keep_alive;
  };

  // Queues what happened. True where the caller is to Deliver.
  bool CollectEvents() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Delivers until the queue is empty.
  void Deliver() ABSL_LOCKS_EXCLUDED(mutex_);
  // What telling of `event` means.
  Delivery MakeDelivery(LedgerEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint32_t num_blocks_;
  const uint32_t max_blocks_per_call_;
  const Clock clock_;
  PoolObserver& observer_;
  FillStarter start_fill_;  // Called by the one thread that delivers.

  mutable Mutex mutex_;
  Ledger ledger_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<PendingId, PendingAlloc> allocs_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<PendingId, PinCallback> pins_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<WatchId, WatchCallback> watches_ ABSL_GUARDED_BY(mutex_);
  std::vector<LedgerEvent> events_ ABSL_GUARDED_BY(mutex_);
  bool delivering_ ABSL_GUARDED_BY(mutex_) = false;
};

// A pool as its byte operations see it: holding one keeps the pool alive.
struct PoolHandle {
  std::shared_ptr<PoolLedger> ledger;
  std::shared_ptr<Memory> memory;
};

}  // namespace kvpool
