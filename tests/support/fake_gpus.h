#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/device/gpu_importer.h"
#include "core/mutex.h"

namespace kvpool::test {

// Memory on a GPU that is not there.
class FakeGpuMemory final : public ImportedMemory {
 public:
  FakeGpuMemory(uint64_t base, uint64_t size_bytes, int ordinal)
      : base_(base), size_bytes_(size_bytes), ordinal_(ordinal) {}

  uint64_t base() const override { return base_; }
  uint64_t size_bytes() const override { return size_bytes_; }
  int ordinal() const override { return ordinal_; }

 private:
  const uint64_t base_;
  const uint64_t size_bytes_;
  const int ordinal_;
};

// A GpuImporter whose regions are nowhere and whose events are done when told. An event is any
// address. Thread-safe.
class FakeGpus final : public GpuImporter {
 public:
  static constexpr uint64_t kBase = 0x7f00'0000'0000;

  explicit FakeGpus(std::vector<std::string> uuids) : uuids_(std::move(uuids)) {}

  absl::StatusOr<std::shared_ptr<const ImportedMemory>> Open(
      const ImportRequest& request) override {
    const MutexLock lock(mutex_);
    auto& memory = opened_[{request.daemon_epoch, request.region_id}];
    if (auto open = memory.lock()) return open;
    requests_.push_back(request);
    handles_.emplace_back(request.handle.begin(), request.handle.end());
    if (!refusal_.ok()) return refusal_;
    int ordinal = 0;
    while (uuids_.at(static_cast<size_t>(ordinal)) != request.device_uuid) ++ordinal;
    auto made = std::make_shared<const FakeGpuMemory>(kBase, request.size_bytes, ordinal);
    memory = made;
    return made;
  }

  absl::StatusOr<std::vector<DeviceInfo>> List() override {
    const MutexLock lock(mutex_);
    if (!refusal_.ok()) return refusal_;
    std::vector<DeviceInfo> devices;
    for (const std::string& uuid : uuids_) {
      devices.push_back({.kind = DeviceKind::kCuda, .uuid = uuid, .name = "fake"});
    }
    return devices;
  }

  absl::Status AwaitEvent(const std::string& device_uuid, void* event,
                          std::stop_token stop) override {
    const std::stop_callback wake(stop, [this] {
      const MutexLock lock(mutex_);
      changed_.notify_all();
    });
    const MutexLock lock(mutex_);
    awaited_.emplace_back(device_uuid, event);
    changed_.notify_all();
    while (!done_.contains(event) && !stop.stop_requested()) changed_.wait(mutex_);
    return done_.contains(event) ? done_.at(event) : absl::CancelledError("stopped");
  }

  // Ends the waits for an event, now and later.
  void End(void* event, const absl::Status& status = absl::OkStatus()) {
    const MutexLock lock(mutex_);
    done_[event] = status;
    changed_.notify_all();
  }
  // Waits until `event` has been waited for.
  void WaitUntilAwaited(void* event) {
    const MutexLock lock(mutex_);
    while (!WasAwaited(event)) changed_.wait(mutex_);
  }
  // Every call but AwaitEvent is refused so from now on.
  void Refuse(const absl::Status& status) {
    const MutexLock lock(mutex_);
    refusal_ = status;
  }

  // The openings that were not answered by what is open; `handle` is of another's memory.
  std::vector<ImportRequest> requests() {
    const MutexLock lock(mutex_);
    return requests_;
  }
  std::vector<std::vector<std::byte>> handles() {
    const MutexLock lock(mutex_);
    return handles_;
  }
  // The device that the last wait was on.
  std::string awaited_device() {
    const MutexLock lock(mutex_);
    return awaited_.back().first;
  }
  bool is_open(const std::string& epoch, uint64_t region_id) {
    const MutexLock lock(mutex_);
    return !opened_[{epoch, region_id}].expired();
  }

 private:
  bool WasAwaited(void* event) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const auto& [device, awaited] : awaited_) {
      if (awaited == event) return true;
    }
    return false;
  }

  const std::vector<std::string> uuids_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<std::string, uint64_t>, std::weak_ptr<const ImportedMemory>> opened_
      ABSL_GUARDED_BY(mutex_);
  std::vector<ImportRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::vector<std::byte>> handles_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<std::string, void*>> awaited_ ABSL_GUARDED_BY(mutex_);
  std::map<void*, absl::Status> done_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kvpool::test
