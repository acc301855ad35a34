#include "client/attachment.h"

#include <utility>

namespace kvpool::client {

Attachment::Attachment(OnNotice on_notice, OnEnd on_end, Runtime& runtime)
    : on_notice_(std::move(on_notice)),
      on_end_(std::move(on_end)),
      runtime_(runtime),
      cancellation_(runtime),
      changed_(runtime.MakeCondition()) {}

Attachment::~Attachment() {
  Cancel();
  if (thread_ != nullptr) Join();
}

void Attachment::Start(Transport& transport, const SessionId& session) {
  thread_ = runtime_.StartThread([this, &transport, session] { Run(transport, session); });
}

absl::Status Attachment::WaitUntilAttached(Duration timeout) {
  const MutexLock lock(mutex_);
  while (!is_attached_ && !has_ended_) {
    if (timeout <= Duration::zero()) {
      return absl::DeadlineExceededError("the daemon does not attach the session");
    }
    timeout = changed_->WaitFor(mutex_, timeout);
  }
  return is_attached_ ? absl::OkStatus() : end_;
}

bool Attachment::has_ended() {
  const MutexLock lock(mutex_);
  return has_ended_;
}

void Attachment::Cancel() { cancellation_.Cancel(); }

void Attachment::Join() {
  thread_->Join();
  thread_.reset();
}

void Attachment::Run(Transport& transport, const SessionId& session) {
  v1::KeepAliveRequest request;
  request.set_session_id(session.ToString());
  absl::Status status =
      transport.KeepAlive(request, cancellation_, [this](const v1::KeepAliveResponse& response) {
        if (response.notice().kind() != v1::Notice::KIND_ATTACHED) {
          on_notice_(response.notice());
          return;
        }
        const MutexLock lock(mutex_);
        is_attached_ = true;
        changed_->NotifyAll();
      });
  if (status.ok()) status = absl::UnavailableError("the daemon ended the session's stream");
  {
    const MutexLock lock(mutex_);
    has_ended_ = true;
    end_ = status;
    changed_->NotifyAll();
    if (!is_attached_) return;
  }
  on_end_(status);
}

}  // namespace kvpool::client
