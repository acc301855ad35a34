#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/device/cuda/device_context.h"
#include "core/device/cuda/kernel_module.h"
#include "core/device/cuda/staging.h"
#include "core/device/device.h"
#include "core/mutex.h"

namespace kvpool::cuda {

// Lane is a stream and the thread that feeds it: work that is posted is done in order, one after
// the other, with the context current; its completion is called when the device is done with it.
// A device has one for each way that bytes go, so that no way waits for another.
//
// Thread-safe; what work uses of it is for its thread alone.
class Lane {
 public:
  // Puts things on the stream, and may wait for it; need not at the end.
  using Work = absl::AnyInvocable<absl::Status(Lane& lane)>;

  // `name` shows in thread listings; at most 15 characters. `kernels` may be null, and outlives
  // this. Errors as Driver::ToStatus says.
  static absl::StatusOr<std::unique_ptr<Lane>> Create(std::shared_ptr<DeviceContext> context,
                                                      const KernelModule* kernels,
                                                      const char* name);
  // Does what was posted, and ends the thread.
  ~Lane();

  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Does `work` later. Ends with its error, else with what the stream had to say. Work of a
  // context that has failed is not done, and ends with what health() says.
  void Post(Work work, Completion done);

  // The rest is for work.

  absl::Status Check(Result result, absl::string_view call) {
    return context_->Check(result, call);
  }
  const Api& api() const { return context_->api(); }
  Stream stream() const { return stream_; }
  Staging& staging() { return *staging_; }
  const KernelModule* kernels() const { return kernels_; }
  DeviceContext& context() { return *context_; }

 private:
  struct Posted {
    Work work;
    Completion done;
  };

  Lane(std::shared_ptr<DeviceContext> context, const KernelModule* kernels)
      : context_(std::move(context)), kernels_(kernels) {}

  void Run();
  absl::Status Do(Work& work);
  // Waits for what is on the stream. An error, though the work is over, or the context given up.
  absl::Status Finish();

  const std::shared_ptr<DeviceContext> context_;
  const KernelModule* const kernels_;
  Stream stream_ = nullptr;
  std::unique_ptr<Staging> staging_;

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Posted> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace kvpool::cuda
