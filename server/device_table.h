#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/clock.h"
#include "core/device/device.h"
#include "core/device/gpus.h"
#include "core/layout/pool_spec.h"
#include "core/mutex.h"

namespace kvpool::server {

// DeviceTable is what pools can lie on: the host's memory, and the GPUs. Nothing of a driver is
// touched before the first pool asks for a GPU, which is made ready then, and tested. Devices live
// as long as this. Thread-safe; a call that asks for a GPU may take seconds, or for ever where a
// driver hangs, and others that ask for one wait for it. The rest never waits.
class DeviceTable {
 public:
  // Whether workers will be able to map a GPU's memory.
  using SelfTest = std::function<absl::Status(Device& gpu)>;

  // How soon a GPU that failed its test is tested again, when a pool asks for it.
  static constexpr Duration kTestInterval = std::chrono::seconds(10);

  // `host` outlives this. Null `gpus`: there are none. `clock` is of the tests of GPUs.
  explicit DeviceTable(
      Device& host, std::shared_ptr<Gpus> gpus = nullptr, SelfTest test = nullptr,
      Clock clock = [] { return std::chrono::steady_clock::now(); })
      : host_(host), gpus_(std::move(gpus)), test_(std::move(test)), clock_(std::move(clock)) {}

  DeviceTable(const DeviceTable&) = delete;
  DeviceTable& operator=(const DeviceTable&) = delete;

  // The devices that `spec` lists, for a shard each. Errors, naming the entry: as Gpus::Find's, and
  // INVALID_ARGUMENT where two names are one GPU's.
  absl::StatusOr<std::vector<Device*>> Find(const PoolSpec& spec);

  // The host, and once a pool has asked for one, the GPUs that the driver shows.
  std::vector<DeviceInfo> List() const;

  // What testing GPUs found wrong, and which have failed.
  std::vector<std::string> warnings() const;

  // Logs each GPU that has failed, once.
  void LogFailures();

 private:
  absl::StatusOr<Device*> FindGpu(const std::string& selector);
  // Takes a GPU that is made ready into the list; the others beside it.
  void Note(Device& gpu);
  // Tests it until it has passed.
  void Test(Device& gpu);

  // What is known of a GPU that is made ready.
  struct Known {
    std::string warning{};   // Of its test.
    bool is_logged = false;  // That it has failed.
  };

  Device& host_;
  const std::shared_ptr<Gpus> gpus_;
  const SelfTest test_;
  const Clock clock_;

  Mutex test_mutex_;  // Held while a GPU is tested; before mutex_.
  std::set<const Device*> passed_ ABSL_GUARDED_BY(test_mutex_);
  std::map<const Device*, TimePoint> tested_ ABSL_GUARDED_BY(test_mutex_);  // When, last.

  mutable Mutex mutex_;
  std::vector<DeviceInfo> listed_ ABSL_GUARDED_BY(mutex_);
  std::map<const Device*, Known> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kvpool::server
