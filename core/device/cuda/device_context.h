#pragma once

#include <atomic>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "core/device/cuda/device_list.h"
#include "core/device/cuda/driver.h"
#include "core/mutex.h"

namespace kvpool::cuda {

// DeviceContext is a device's primary context, retained for as long as this lives, and what
// became of it: once a call has had a result that it does not recover from, it has failed for
// good. Every call on a device goes through Check. Thread-safe.
class DeviceContext {
 public:
  // Errors as Driver::ToStatus says.
  static absl::StatusOr<std::shared_ptr<DeviceContext>> Retain(std::shared_ptr<const Driver> driver,
                                                               const DeviceEntry& entry);
  ~DeviceContext();

  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  // Makes the context current in this thread, for a scope. While it lasts, what the thread asks of
  // the driver breaks no capture of a graph in another thread: workers capture what they like.
  class Scope {
   public:
    explicit Scope(DeviceContext& context);
    ~Scope();

    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    // Whether it is.
    const absl::Status& status() const { return status_; }

   private:
    absl::Status Enter();

    DeviceContext& context_;
    int capture_mode_ = kCaptureModeRelaxed;  // The thread's own, once it is exchanged.
    bool has_exchanged_ = false;
    const absl::Status status_;
  };

  // As Driver::ToStatus, naming the device, and remembering a result that ends the context.
  absl::Status Check(Result result, absl::string_view call);

  // Takes the context for failed, since it is not known what its work still does, as `why` says.
  void GiveUp(const absl::Status& why);

  // OK, or, once the context has failed, FAILED_PRECONDITION (DEVICE_FAILED) with what it failed
  // of.
  absl::Status health() const;

  const Api& api() const { return driver_->api(); }
  const DeviceEntry& entry() const { return entry_; }
  Context handle() const { return handle_; }

 private:
  void Fail(const absl::Status& status);

  DeviceContext(std::shared_ptr<const Driver> driver, const DeviceEntry& entry)
      : driver_(std::move(driver)), entry_(entry) {}

  const std::shared_ptr<const Driver> driver_;
  const DeviceEntry entry_;
  Context handle_ = nullptr;
  std::atomic<bool> has_failed_ = false;  // Whether failure_ is set: so that most need not look.
  mutable Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);  // The first: what comes after only repeats it.
};

}  // namespace kvpool::cuda
