#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/layout/pool_layout.h"
#include "core/mutex.h"
#include "core/pool.h"

namespace kvpool::server {

// A pool that is being served.
struct ServedPool {
  std::shared_ptr<Pool> pool;
  std::vector<uint64_t> region_ids;  // One a shard; never used again in the daemon's life.
};

// PoolRegistry holds the pools by name. Creating takes as long as the memory takes to allocate:
// callers post it to an executor for long work. Thread-safe.
class PoolRegistry {
 public:
  struct Options {
    LedgerLimits limits;
    bool trace = false;
    bool poison = false;  // The default fill of every pool is poison.
    Clock clock;
  };

  // `host` and `observer` must outlive the registry.
  PoolRegistry(Options options, Device& host, PoolObserver& observer);

  // Plans without allocating: what CreatePool would make.
  absl::StatusOr<PoolLayout> Plan(PoolSpec spec) const;

  // Errors: ALREADY_EXISTS (a pool being created counts); INVALID_ARGUMENT, naming the field;
  // RESOURCE_EXHAUSTED, the device has not that much memory.
  absl::StatusOr<ServedPool> Create(const PoolSpec& spec);

  // Errors: NOT_FOUND; FAILED_PRECONDITION (IN_USE).
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
  const Options options_;
  Device& host_;
  PoolObserver& observer_;

  mutable Mutex mutex_;
  // A null pool: its name is taken by a Create in progress.
  std::map<std::string, ServedPool, std::less<>> pools_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_region_id_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace kvpool::server
