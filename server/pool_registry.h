#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/clock.h"
#include "core/layout/pool_layout.h"
#include "core/mutex.h"
#include "core/pool.h"
#include "server/device_table.h"

namespace kvpool::server {

// A pool that is being served.
struct ServedPool {
  std::shared_ptr<Pool> pool;
  std::vector<uint64_t> region_ids;  // One a shard; never used again in the daemon's life.
};

// Bytes of all of a pool's shards.
uint64_t RequiredBytes(const PoolLayout& layout);

// PoolRegistry holds the pools by name. Creating takes as long as the memory takes to allocate:
// callers post it to an executor for long work. Thread-safe.
class PoolRegistry {
 public:
  struct Options {
    LedgerLimits limits;
    bool trace = false;
    bool poison = false;  // The default fill of every pool is poison.
    Clock clock;
    // Gives a new pool's PoolOptions::before_first_generation. Null: 0, for each.
    std::function<uint64_t()> before_first_generation{};
    // Takes pools that nobody has any more, and lets them go, which for one on a GPU waits for its
    // driver. Null: they are let go at once, where the last user is.
    std::function<void(std::vector<ServedPool>)> discard{};
  };

  // What a daemon gives for it: microseconds since 1970. No owner of a block has it for less than
  // one, so this is above every generation of an earlier pool, unless the clock was set back.
  static uint64_t MicrosecondsSince1970();

  // `devices` and `observer` must outlive the registry.
  PoolRegistry(Options options, DeviceTable& devices, PoolObserver& observer);

  PoolRegistry(const PoolRegistry&) = delete;
  PoolRegistry& operator=(const PoolRegistry&) = delete;

  // Plans without allocating: what CreatePool would make. GPUs are named by UUID in it, whatever
  // the spec calls them. Errors: INVALID_ARGUMENT, naming the field; FAILED_PRECONDITION or
  // UNAVAILABLE (DEVICE), a device that this daemon has not, or not yet.
  absl::StatusOr<PoolLayout> Plan(const PoolSpec& spec) const;

  // Errors: ALREADY_EXISTS (a pool being created counts); INVALID_ARGUMENT, naming the field;
  // FAILED_PRECONDITION (DEVICE), as Plan; RESOURCE_EXHAUSTED, the device has not that much memory,
  // with the bytes needed and available.
  absl::StatusOr<ServedPool> Create(const PoolSpec& spec);

  // Frees the pool's memory once no call uses it any more. Errors: NOT_FOUND; FAILED_PRECONDITION
  // (IN_USE): a session is open, or a process that had one may still write.
  absl::Status Delete(absl::string_view name);

  // Errors: NOT_FOUND.
  absl::StatusOr<ServedPool> Find(absl::string_view name) const;
  // By name.
  std::vector<ServedPool> List() const;

  // The region of that id, and its pool's; NOT_FOUND.
  struct FoundRegion {
    std::shared_ptr<Pool> pool;
    uint32_t shard = 0;
  };
  absl::StatusOr<FoundRegion> FindRegion(uint64_t region_id) const;

  // To every pool.
  void ProcessGone(ProcessId process);
  // Advances every pool; when to do so again, if known.
  std::optional<TimePoint> Advance();

 private:
  // A layout, and the device of each of its shards.
  struct Planned {
    PoolLayout layout;
    std::vector<Device*> devices;
  };

  absl::StatusOr<Planned> PlanOnDevices(PoolSpec spec) const;
  absl::StatusOr<ServedPool> PlanAndAllocate(const PoolSpec& spec);
  absl::StatusOr<std::shared_ptr<Pool>> Allocate(const Planned& planned);
  // Puts the pool under its name, which Create has taken, or gives the name back.
  absl::StatusOr<ServedPool> Enter(const PoolLayout& layout,
                                   absl::StatusOr<std::shared_ptr<Pool>> pool);
  // With those that were deleted and are still in use.
  std::vector<ServedPool> ListAll() const;
  // Lets them go, without the mutex.
  void Discard(std::vector<ServedPool> pools) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Of the deleted pools, those that nobody else has; the caller discards them without the mutex.
  std::vector<ServedPool> TakeUnused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  DeviceTable& devices_;
  PoolObserver& observer_;

  mutable Mutex mutex_;
  // A null pool: its name is taken by a Create in progress.
  std::map<std::string, ServedPool, std::less<>> pools_ ABSL_GUARDED_BY(mutex_);
  std::vector<ServedPool> retired_ ABSL_GUARDED_BY(mutex_);  // Deleted.
  uint64_t next_region_id_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace kvpool::server
