#include "client/session_core.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "client/convert.h"
#include "core/error.h"

namespace kvpool::client {
namespace {

absl::Status EndedError(absl::string_view why) {
  return MakeError(absl::StatusCode::kNotFound, {.reason = Reason::kSessionUnknown}, why);
}

}  // namespace

SessionCore::SessionCore(std::shared_ptr<ClientCore> client, OpenedSession opened,
                         SessionOptions options)
    : client_(std::move(client)),
      opened_(std::move(opened)),
      options_(std::move(options)),
      // A random start, so that a key never meets one of another process or time.
      next_key_(client_->runtime.Random()),
      cancellation_(client_->runtime),
      releaser_(
          std::max(opened_.limits.max_blocks_per_call, 1U),
          [this](std::span<const BlockRef> refs) {
            const absl::Status sent = DecRef(refs);
            // The references of an ended session are gone with it.
            return status().ok() ? sent : absl::OkStatus();
          },
          [this](std::span<const BlockRef> refs, const absl::Status& why) {
            OnReleaseFailure(refs, why);
          },
          client_->runtime),
      event_releaser_(
          [this](const EventReleaser::Event& event, std::stop_token stop) {
            return gpus().AwaitEvent(event.device_uuid, event.handle, std::move(stop));
          },
          [this](std::span<const BlockRef> refs, const absl::Status& why) {
            OnReleaseFailure(refs, why);
          },
          client_->runtime),
      attachment_(
          [this](const v1::Notice& proto) {
            if (const std::optional<Notice> notice = NoticeFromProto(proto)) Notify(*notice);
          },
          [this](const absl::Status& how) { OnStreamEnd(how); }, client_->runtime) {}

absl::Status SessionCore::Attach(Cancellation& cancellation) {
  attachment_.Start(*client_->transport, opened_.id);
  const Cancellation::Scope scope(cancellation, [this] { attachment_.Cancel(); });
  return attachment_.WaitUntilAttached(client_->options.retry.attempt_timeout);
}

absl::Status SessionCore::Close() {
  KVPOOL_RETURN_IF_ERROR(fork_guard_.Check());
  {
    const MutexLock lock(mutex_);
    if (std::exchange(is_closed_, true)) return absl::OkStatus();
    if (end_.ok()) end_ = EndedError("the session is closed");
  }
  // What is not given back yet ends with the session.
  releaser_.Stop();
  // What it still waits for is vouched for.
  event_releaser_.Stop();
  v1::CloseSessionRequest request;
  request.set_session_id(opened_.id.ToString());
  v1::CloseSessionResponse response;
  RetryPolicy policy = client_->retrier.policy();
  policy.attempt_timeout = policy.total_timeout = client_->options.close_timeout;
  Cancellation cancellation(client_->runtime);
  const absl::Status status = client_->retrier.Run(
      policy, Duration{}, cancellation,
      // Once the stream has ended, the session has too: what is left to do is to vouch, once.
      [this] { return !attachment_.has_ended(); },
      [&](Duration timeout) {
        return client_->transport->CloseSession(request, {timeout, cancellation}, response);
      });
  cancellation_.Cancel();
  releaser_.Join();
  event_releaser_.Join();
  attachment_.Cancel();
  attachment_.Join();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status SessionCore::Transfer(absl::FunctionRef<bool()> may_repeat,
                                   absl::FunctionRef<absl::Status(const CallContext&)> attempt) {
  KVPOOL_RETURN_IF_ERROR(CheckUsable());
  RetryPolicy policy = client_->retrier.policy();
  policy.attempt_timeout = policy.total_timeout = client_->options.transfer_timeout;
  return Learn(client_->retrier.Run(
      policy, Duration{}, cancellation_, [&] { return may_repeat() && status().ok(); },
      [&](Duration timeout) {
        return attempt({timeout, cancellation_});
      }));
}

absl::Status SessionCore::GetRegionFd(const v1::RegionFdRequest& request, OwnedFd& fd) {
  v1::RegionFdResponse response;
  return Learn(client_->retrier.Run(
      Duration{}, cancellation_, [this] { return status().ok(); },
      [&](Duration timeout) {
        absl::StatusOr<OwnedFd> got =
            client_->transport->GetRegionFd(request, {timeout, cancellation_}, response);
        if (!got.ok()) return got.status();
        fd = *std::move(got);
        return absl::OkStatus();
      }));
}

absl::Status SessionCore::DecRef(std::span<const BlockRef> refs, bool done) {
  v1::DecRefRequest request;
  request.set_session_id(opened_.id.ToString());
  request.set_idempotency_key(NextKey());
  request.set_done(done);
  BlocksToProto(refs, *request.mutable_blocks());
  v1::DecRefResponse response;
  return Call(&Transport::DecRef, request, response);
}

GpuImporter& SessionCore::gpus() {
  return client_->options.gpus != nullptr ? *client_->options.gpus : ProcessGpuImporter();
}

Duration SessionCore::ClampWait(Duration wait) const {
  // Where the daemon does not say what it does not wait beyond.
  constexpr Duration kMaxWait = std::chrono::hours(1);
  const Duration limit = opened_.limits.max_wait;
  return std::clamp(wait, Duration::zero(), limit > Duration::zero() ? limit : kMaxWait);
}

absl::Status SessionCore::CheckUsable() const {
  KVPOOL_RETURN_IF_ERROR(fork_guard_.Check());
  return status();
}

absl::Status SessionCore::status() const {
  // Before the mutex: in a child it may be held by a thread that is not there.
  KVPOOL_RETURN_IF_ERROR(fork_guard_.Check());
  const MutexLock lock(mutex_);
  return end_;
}

uint64_t SessionCore::NextKey() {
  const uint64_t key = next_key_.fetch_add(1, std::memory_order_relaxed);
  return key != 0 ? key : next_key_.fetch_add(1, std::memory_order_relaxed);
}

absl::Status SessionCore::Learn(absl::Status status) {
  if (status.ok()) return status;
  if (GetErrorDetail(status).reason == Reason::kSessionUnknown) MarkEnded(status);
  // A call that the end cut short says so, not that it was cancelled.
  absl::Status own = this->status();
  return own.ok() ? status : own;
}

void SessionCore::MarkEnded(const absl::Status& why) {
  {
    const MutexLock lock(mutex_);
    if (!end_.ok()) return;
    end_ = EndedError(absl::StrCat("the session has ended: ", absl::StatusCodeToString(why.code()),
                                   ": ", why.message()));
  }
  releaser_.Stop();
  event_releaser_.Stop();
  cancellation_.Cancel();
  attachment_.Cancel();
}

void SessionCore::Notify(const Notice& notice) {
  if (options_.on_notice) options_.on_notice(notice);
}

void SessionCore::OnStreamEnd(const absl::Status& how) {
  MarkEnded(how);
  absl::Status why;
  {
    const MutexLock lock(mutex_);
    if (is_closed_) return;
    why = end_;
  }
  Notify({.kind = Notice::Kind::kLost, .message = std::string(why.message()), .deadline = {}});
}

void SessionCore::OnReleaseFailure(std::span<const BlockRef> refs, const absl::Status& status) {
  if (options_.on_release_failure) {
    options_.on_release_failure(refs, status);
    return;
  }
  std::fprintf(stderr, "kvpool: session=%s blocks=%zu first_block=%u not given back: %s\n",
               opened_.id.Short().c_str(), refs.size(), ToIndex(refs.front().block),
               status.ToString().c_str());
}

}  // namespace kvpool::client
