#include "client/kept_session_core.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/error.h"
#include "core/status_macros.h"

namespace kvpool::client {
namespace {

// With what gRPC needs to connect anew, which is about as long, every worker of a node is back well
// within two seconds of its daemon. Nobody is harmed by four attempts a second.
constexpr Duration kMaxPause = std::chrono::milliseconds(250);
// A daemon opens its socket to others than its own user just after it has made it.
constexpr Duration kDenialPatience = std::chrono::seconds(1);

absl::Status NotYet(const absl::Status& lost, const absl::Status& last_attempt) {
  return absl::UnavailableError(
      absl::StrCat(lost.message(), "; it is not re-attached yet",
                   last_attempt.ok() ? "" : absl::StrCat(": ", last_attempt.ToString())));
}

}  // namespace

KeptSessionCore::KeptSessionCore(std::shared_ptr<ClientCore> client, KeptSessionOptions options)
    : fork_guard_(),
      client_(std::move(client)),
      options_(std::move(options)),
      cancellation_(client_->runtime),
      changed_(client_->runtime.MakeCondition()) {}

absl::Status KeptSessionCore::Open() {
  opener_.emplace(client_, WatchedOptions());
  KVPOOL_ASSIGN_OR_RETURN(std::shared_ptr<MappedSession> mapped, Map(opener_->Open(cancellation_)));
  opener_->Expect(mapped->session().layout().fingerprint);
  {
    const MutexLock lock(mutex_);
    current_ = std::move(mapped);
  }
  thread_ = client_->runtime.StartThread([this] { Run(); });
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<MappedSession>> KeptSessionCore::Current(Duration wait) {
  KVPOOL_RETURN_IF_ERROR(fork_guard_.Check());
  const MutexLock lock(mutex_);
  while (true) {
    NoteLoss();
    if (current_ != nullptr) return current_;
    if (wait <= Duration::zero() || !absl::IsUnavailable(absence_)) return absence_;
    wait = changed_->WaitFor(mutex_, wait);
  }
}

absl::Status KeptSessionCore::Close() {
  KVPOOL_RETURN_IF_ERROR(fork_guard_.Check());
  {
    const MutexLock lock(mutex_);
    if (std::exchange(is_closed_, true)) return absl::OkStatus();
    changed_->NotifyAll();
  }
  cancellation_.Cancel();
  thread_->Join();
  std::shared_ptr<MappedSession> last;
  {
    const MutexLock lock(mutex_);
    last = std::exchange(current_, nullptr);
    if (last == nullptr) last = std::exchange(lost_, nullptr);
    absence_ = MakeError(absl::StatusCode::kNotFound, {.reason = Reason::kSessionUnknown},
                         "the kept session is closed");
    changed_->NotifyAll();
  }
  return last == nullptr ? absl::OkStatus() : last->session().Close();
}

SessionOptions KeptSessionCore::WatchedOptions() {
  SessionOptions options = options_.session;
  options.on_notice = [weak_this = weak_from_this(),
                       on_notice = std::move(options.on_notice)](const Notice& notice) {
    if (on_notice) on_notice(notice);
    if (notice.kind != Notice::Kind::kLost) return;
    if (const auto self = weak_this.lock()) self->Wake();
  };
  return options;
}

KeptSessionCore::MaybeMapped KeptSessionCore::Map(
    absl::StatusOr<std::unique_ptr<Session>> session) const {
  KVPOOL_RETURN_IF_ERROR(session.status());
  std::vector<Mapping> mappings;
  for (const uint32_t shard : options_.shards) {
    absl::StatusOr<Mapping> mapping = (*session)->Map(shard, options_.access);
    if (!mapping.ok()) {
      // What fails since the daemon has just gone says nothing of the next.
      KVPOOL_RETURN_IF_ERROR((*session)->Alloc(0).status());
      return mapping.status();
    }
    mappings.push_back(*std::move(mapping));
  }
  return std::make_shared<MappedSession>(*std::move(session), std::move(mappings));
}

void KeptSessionCore::Run() {
  while (const std::optional<absl::Status> lost = AwaitLoss()) {
    MaybeMapped next = Reattach(*lost);
    {
      const MutexLock lock(mutex_);
      if (is_closed_) return;
    }
    if (options_.on_change) options_.on_change({.lost = *lost, .now = next});
    const MutexLock lock(mutex_);
    changed_->NotifyAll();
    if (!next.ok()) {
      absence_ = next.status();
      return;
    }
    current_ = *std::move(next);
  }
}

std::optional<absl::Status> KeptSessionCore::AwaitLoss() {
  std::shared_ptr<MappedSession> lost;
  {
    const MutexLock lock(mutex_);
    for (NoteLoss(); lost_ == nullptr && !is_closed_; NoteLoss()) changed_->Wait(mutex_);
    if (is_closed_) return std::nullopt;
    lost = std::exchange(lost_, nullptr);
  }
  return lost->session().status();
}

void KeptSessionCore::NoteLoss() {
  if (current_ == nullptr || current_->session().alive()) return;
  lost_ = std::exchange(current_, nullptr);
  absence_ = NotYet(lost_->session().status(), absl::OkStatus());
  changed_->NotifyAll();
}

KeptSessionCore::MaybeMapped KeptSessionCore::Reattach(const absl::Status& lost) {
  if (options_.reattach_for <= Duration::zero()) return lost;
  const RetryPolicy& policy = client_->retrier.policy();
  const Duration max_pause = std::min(policy.max_backoff, kMaxPause);
  const TimePoint start = client_->retrier.now();
  Duration pause = policy.initial_backoff;
  absl::Status last_attempt;
  while (true) {
    client_->retrier.Pause(std::min(pause, max_pause), cancellation_);
    pause = std::min(2 * pause, max_pause);
    if (cancellation_.is_cancelled()) return absl::CancelledError("the kept session is closed");
    MaybeMapped mapped = Map(opener_->TryOnce(cancellation_));
    const TimePoint now = client_->retrier.now();
    if (mapped.ok() || IsForGood(mapped.status(), now)) return mapped;
    if (now - start >= options_.reattach_for) {
      return absl::DeadlineExceededError(absl::StrCat(
          "not re-attached in ", std::chrono::duration<double>(options_.reattach_for).count(),
          " s: ", mapped.status().ToString()));
    }
    const MutexLock lock(mutex_);
    absence_ = NotYet(lost, mapped.status());
  }
}

bool KeptSessionCore::IsForGood(const absl::Status& status, TimePoint now) {
  if (absl::IsPermissionDenied(status)) {
    if (!denied_since_.has_value()) denied_since_ = now;
    return now - *denied_since_ >= kDenialPatience;
  }
  denied_since_.reset();
  switch (GetErrorDetail(status).reason) {
    case Reason::kLayoutMismatch:
    case Reason::kPidCollision:
    case Reason::kDevice:
      return true;
    default:
      return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status);
  }
}

void KeptSessionCore::Wake() {
  const MutexLock lock(mutex_);
  NoteLoss();
}

}  // namespace kvpool::client
