#include "client/releaser.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/error.h"

namespace kvpool::client {
namespace {

// Whether `status` names one wrong entry of a list, so that the rest may pass without it.
bool NamesEntry(const absl::Status& status) {
  switch (GetErrorDetail(status).reason) {
    case Reason::kStaleBlock:
    case Reason::kNotLive:
    case Reason::kNotHeld:
      return true;
    default:
      return false;
  }
}

}  // namespace

Releaser::Releaser(size_t max_batch, Send send, OnFailure on_failure, Runtime& runtime)
    : max_batch_(max_batch),
      send_(std::move(send)),
      on_failure_(std::move(on_failure)),
      changed_(runtime.MakeCondition()) {
  KVPOOL_CHECK(max_batch > 0);
  thread_ = runtime.StartThread([this] { Run(); });
}

Releaser::~Releaser() {
  Stop();
  if (thread_ != nullptr) Join();
}

void Releaser::Add(BlockRef ref) {
  const MutexLock lock(mutex_);
  if (is_stopped_) return;
  pending_.push_back(ref);
  ++added_count_;
  changed_->NotifyAll();
}

void Releaser::Wait() {
  const MutexLock lock(mutex_);
  const uint64_t target = added_count_;
  while (answered_count_ < target && !is_stopped_) changed_->Wait(mutex_);
}

absl::Status Releaser::Flush() {
  Wait();
  const MutexLock lock(mutex_);
  return std::exchange(first_failure_, absl::OkStatus());
}

void Releaser::Stop() {
  const MutexLock lock(mutex_);
  is_stopped_ = true;
  pending_.clear();
  changed_->NotifyAll();
}

void Releaser::Join() {
  thread_->Join();
  thread_.reset();
}

void Releaser::Run() {
  while (true) {
    std::vector<BlockRef> batch;
    {
      const MutexLock lock(mutex_);
      while (pending_.empty() && !is_stopped_) changed_->Wait(mutex_);
      if (is_stopped_) return;
      const size_t count = std::min(pending_.size(), max_batch_);
      const auto end = pending_.begin() + static_cast<std::ptrdiff_t>(count);
      batch.assign(pending_.begin(), end);
      pending_.erase(pending_.begin(), end);
    }
    const size_t count = batch.size();
    SendBatch(std::move(batch));
    const MutexLock lock(mutex_);
    answered_count_ += count;
    changed_->NotifyAll();
  }
}

void Releaser::SendBatch(std::vector<BlockRef> batch) {
  while (!batch.empty()) {
    const absl::Status status = send_(batch);
    if (status.ok() || is_stopped()) return;
    const uint32_t index = GetErrorDetail(status).index;
    if (!NamesEntry(status) || index >= batch.size()) {
      Fail(batch, status);
      return;
    }
    const auto wrong = batch.begin() + index;
    Fail({&*wrong, 1}, status);
    batch.erase(wrong);
  }
}

void Releaser::Fail(std::span<const BlockRef> refs, const absl::Status& status) {
  {
    const MutexLock lock(mutex_);
    first_failure_.Update(status);
  }
  on_failure_(refs, status);
}

bool Releaser::is_stopped() {
  const MutexLock lock(mutex_);
  return is_stopped_;
}

}  // namespace kvpool::client
