#include "core/device/cuda/lane.h"

#include <pthread.h>

#include <optional>
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
  std::optional<DeviceContext::Scope> scope(std::in_place, *context_);
  while (true) {
    Posted posted;
    {
      const MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) changed_.wait(mutex_);
      if (queue_.empty()) return;
      posted = std::move(queue_.front());
      queue_.pop_front();
    }
    // What was in its way may have passed.
    if (!scope->status().ok()) scope.emplace(*context_);
    posted.done(scope->status().ok() ? Do(posted.work) : scope->status());
  }
}

absl::Status Lane::Do(Work& work) {
  KVPOOL_RETURN_IF_ERROR(context_->health());
  absl::Status worked = work(*this);
  // After an error too: what was begun is not to go on after the work is said to be over.
  const absl::Status ended = Finish();
  return worked.ok() ? ended : worked;
}

absl::Status Lane::Finish() {
  absl::Status ended = Check(api().cuStreamSynchronize(stream_), "cuStreamSynchronize");
  if (ended.ok()) return ended;
  // Until it has, the work may go on in blocks that are somebody else's by then.
  const absl::Status again = Check(api().cuStreamSynchronize(stream_), "cuStreamSynchronize");
  if (!again.ok()) context_->GiveUp(again);
  return ended;
}

}  // namespace kvpool::cuda
