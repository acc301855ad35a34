#include "core/device/cuda/lane.h"

#include <pthread.h>

#include <utility>

#include "core/status_macros.h"

namespace kvpool::cuda {

absl::StatusOr<std::unique_ptr<Lane>> Lane::Create(std::shared_ptr<DeviceContext> context,
                                                   const KernelModule* kernels, const char* name) {
  std::unique_ptr<Lane> lane(new Lane(std::move(context), kernels));
  const DeviceContext::Scope scope(*lane->context_);
  KVPOOL_RETURN_IF_ERROR(scope.status());
  // Not the default stream, which other streams would wait for.
  KVPOOL_RETURN_IF_ERROR(
      lane->Check(lane->api().cuStreamCreateWithPriority(&lane->stream_, kStreamNonBlocking,
                                                         /*priority=*/0),
                  "cuStreamCreateWithPriority"));
  KVPOOL_ASSIGN_OR_RETURN(lane->staging_, Staging::Create(lane->context_));
  lane->thread_ = std::jthread([lane = lane.get(), name] {
    pthread_setname_np(pthread_self(), name);
    lane->Run();
  });
  return lane;
}

Lane::~Lane() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  const DeviceContext::Scope scope(*context_);
  if (stream_ != nullptr && scope.status().ok()) api().cuStreamDestroy(stream_);
}

void Lane::Post(Work work, Completion done) {
  {
    const MutexLock lock(mutex_);
    queue_.push_back({.work = std::move(work), .done = std::move(done)});
  }
  changed_.notify_one();
}

void Lane::Run() {
  const DeviceContext::Scope scope(*context_);
  while (true) {
    Posted posted;
    {
      const MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) changed_.wait(mutex_);
      if (queue_.empty()) return;
      posted = std::move(queue_.front());
      queue_.pop_front();
    }
    posted.done(scope.status().ok() ? Do(posted.work) : scope.status());
  }
}

absl::Status Lane::Do(Work& work) {
  KVPOOL_RETURN_IF_ERROR(context_->health());
  absl::Status worked = work(*this);
  // After an error too: what was begun is not to go on after the work is said to be over.
  const absl::Status ended = Check(api().cuStreamSynchronize(stream_), "cuStreamSynchronize");
  return worked.ok() ? ended : worked;
}

}  // namespace kvpool::cuda
