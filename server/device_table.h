#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/device/device.h"
#include "core/device/gpus.h"
#include "core/layout/pool_spec.h"
#include "core/mutex.h"

namespace kvpool::server {

// DeviceTable is what pools can lie on: the host's memory, and the GPUs. A GPU is made ready when
// the first pool asks for it, and tested then. Devices live as long as this. Thread-safe; a call
// that is the first to ask for a GPU may take seconds, in which others that ask for one wait.
class DeviceTable {
 public:
  // Whether workers will be able to map a GPU's memory.
  using SelfTest = std::function<absl::Status(Device& gpu)>;

  // `host` outlives this. Null `gpus`: there are none.
  explicit DeviceTable(Device& host, std::shared_ptr<Gpus> gpus = nullptr, SelfTest test = nullptr)
      : host_(host), gpus_(std::move(gpus)), test_(std::move(test)) {}

  DeviceTable(const DeviceTable&) = delete;
  DeviceTable& operator=(const DeviceTable&) = delete;

  // The devices that `spec` lists, for a shard each. Errors, naming the entry: as Gpus::Find's, and
  // INVALID_ARGUMENT where two names are one GPU's.
  absl::StatusOr<std::vector<Device*>> Find(const PoolSpec& spec);

  // Asks the driver what there is, for List. A machine without one is none to warn of: logged.
  void Discover();

  // The host, and the GPUs as of the last Discover.
  std::vector<DeviceInfo> List() const;

  // What discovering and testing GPUs found wrong.
  std::vector<std::string> warnings() const;

 private:
  absl::StatusOr<Device*> FindGpu(const std::string& selector);
  void TestOnce(Device& gpu);

  Device& host_;
  const std::shared_ptr<Gpus> gpus_;
  const SelfTest test_;

  Mutex test_mutex_;  // Held while a GPU is tested; before mutex_.
  std::set<const Device*> tested_ ABSL_GUARDED_BY(test_mutex_);

  mutable Mutex mutex_;
  std::vector<DeviceInfo> listed_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> warnings_ ABSL_GUARDED_BY(mutex_);  // By what they are of.
};

}  // namespace kvpool::server
