#include "server/session_hub.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include <spdlog/spdlog.h>

#include "core/error.h"

namespace kvpool::server {
namespace {

const char* ReasonText(SessionEnd reason) {
  switch (reason) {
    case SessionEnd::kClosed:
      return "closed";
    case SessionEnd::kExpired:
      return "expired";
    case SessionEnd::kDetached:
      return "detached";
    case SessionEnd::kProcessGone:
      return "process_gone";
    case SessionEnd::kTerminated:
      return "terminated";
    case SessionEnd::kParentEnded:
      return "parent_ended";
  }
  return "unknown";
}

// What the stream of a session that ended so is told.
absl::Status StreamStatus(const SessionId& session, SessionEnd reason) {
  if (reason == SessionEnd::kClosed) return absl::OkStatus();
  return MakeError(absl::StatusCode::kNotFound, {.reason = Reason::kSessionUnknown},
                   absl::StrCat("session ", session.Short(), " ended: ", ReasonText(reason)));
}

constexpr size_t kSessionIdDigits = 32;

// Whether the id as text begins with `prefix`. Makes no text: there may be many sessions.
bool HasPrefix(const SessionId& session, absl::string_view prefix) {
  if (prefix.size() > 2 * session.bytes.size()) return false;
  for (size_t i = 0; i < prefix.size(); ++i) {
    const uint8_t byte = session.bytes[i / 2];
    const uint8_t digit = i % 2 == 0 ? byte >> 4 : byte & 0xF;
    if (prefix[i] != "0123456789abcdef"[digit]) return false;
  }
  return true;
}

v1::Notice MakeNotice(v1::Notice::Kind kind) {
  v1::Notice notice;
  notice.set_kind(kind);
  return notice;
}

}  // namespace

void SessionHub::Slot::Send(const v1::Notice& notice) {
  const MutexLock lock(mutex_);
  if (!ended_) stream_->Send(notice);
}

void SessionHub::Slot::End(const absl::Status& status) {
  const MutexLock lock(mutex_);
  if (!std::exchange(ended_, true)) stream_->End(status);
}

void SessionHub::Add(const SessionId& session, std::shared_ptr<Pool> pool,
                     std::shared_ptr<const Process> process) {
  {
    const MutexLock lock(mutex_);
    Entry& entry = entries_[session];
    by_id_.insert(session);
    entry.pool = std::move(pool);
    entry.processes.push_back(std::move(process));
  }
  on_change_();
}

void SessionHub::Forget(const SessionId& session) {
  // Destroyed after the mutex is let go: the last reference to a process or a pool may be in it.
  Entry forgotten;
  const MutexLock lock(mutex_);
  const auto it = entries_.find(session);
  if (it == entries_.end()) return;
  forgotten = std::move(it->second);
  entries_.erase(it);
  by_id_.erase(session);
}

void SessionHub::AddProcess(const SessionId& session, std::shared_ptr<const Process> process) {
  const MutexLock lock(mutex_);
  const auto it = entries_.find(session);
  if (it == entries_.end()) return;
  std::vector<std::shared_ptr<const Process>>& known = it->second.processes;
  if (std::ranges::find(known, process) == known.end()) known.push_back(std::move(process));
}

std::shared_ptr<Pool> SessionHub::FindPool(const SessionId& session) const {
  const MutexLock lock(mutex_);
  const auto it = entries_.find(session);
  return it == entries_.end() ? nullptr : it->second.pool;
}

std::vector<SessionId> SessionHub::FindByPrefix(absl::string_view prefix) const {
  std::string first(prefix.substr(0, kSessionIdDigits));
  first.resize(kSessionIdDigits, '0');
  const absl::StatusOr<SessionId> lowest = SessionId::Parse(first);
  if (!lowest.ok()) return {};
  std::vector<SessionId> found;
  const MutexLock lock(mutex_);
  for (auto it = by_id_.lower_bound(*lowest); it != by_id_.end() && HasPrefix(*it, prefix); ++it) {
    found.push_back(*it);
  }
  return found;
}

ReclaimProof SessionHub::Proof(const SessionId& session) const {
  const MutexLock lock(mutex_);
  const auto it = entries_.find(session);
  if (it == entries_.end()) return ReclaimProof::kPidfd;
  const bool all_proved = std::ranges::all_of(it->second.processes, [](const auto& process) {
    return process->proof() == ReclaimProof::kPidfd;
  });
  return all_proved ? ReclaimProof::kPidfd : ReclaimProof::kDelay;
}

void SessionHub::SetStream(const SessionId& session, std::shared_ptr<SessionStream> stream) {
  auto slot = std::make_shared<Slot>(std::move(stream));
  // Set where the session is over already.
  std::optional<SessionEnd> end;
  std::optional<v1::Notice> notice;
  {
    const MutexLock lock(mutex_);
    const auto it = entries_.find(session);
    if (it == entries_.end()) {
      end = SessionEnd::kDetached;
    } else if (it->second.end.has_value()) {
      end = it->second.end;
    } else {
      it->second.slot = slot;
      notice = StandingNotice();
    }
  }
  if (end.has_value()) {
    slot->End(StreamStatus(session, *end));
  } else if (notice.has_value()) {
    slot->Send(*notice);
  }
}

void SessionHub::DropStream(const SessionId& session, const SessionStream* stream) {
  // Destroyed after the mutex is let go, as the stream may be with it.
  std::shared_ptr<Slot> dropped;
  const MutexLock lock(mutex_);
  const auto it = entries_.find(session);
  if (it == entries_.end() || it->second.slot == nullptr) return;
  if (it->second.slot->stream() == stream) dropped = std::move(it->second.slot);
}

size_t SessionHub::size() const {
  const MutexLock lock(mutex_);
  return entries_.size();
}

size_t SessionHub::live_count() const {
  const MutexLock lock(mutex_);
  return static_cast<size_t>(std::ranges::count_if(
      entries_, [](const auto& item) { return !item.second.end.has_value(); }));
}

void SessionHub::Send(const SessionId& session, const v1::Notice& notice) {
  std::shared_ptr<Slot> slot;
  {
    const MutexLock lock(mutex_);
    const auto it = entries_.find(session);
    if (it != entries_.end()) slot = it->second.slot;
  }
  if (slot != nullptr) slot->Send(notice);
}

void SessionHub::SendAll(const v1::Notice& notice) {
  {
    const MutexLock lock(mutex_);
    standing_notice_ = notice;
    standing_time_ = std::chrono::steady_clock::now();
  }
  for (const std::shared_ptr<Slot>& slot : Slots()) slot->Send(notice);
}

void SessionHub::EndAll(const absl::Status& status) {
  LogLive();
  for (const std::shared_ptr<Slot>& slot : Slots()) slot->End(status);
}

void SessionHub::LogLive() const {
  const MutexLock lock(mutex_);
  for (const auto& [session, entry] : entries_) {
    if (entry.end.has_value()) continue;
    spdlog::warn("event=session_cut_off session={} pool={} pid={}", session.Short(),
                 entry.pool->layout().spec.name, entry.processes.front()->pid());
  }
}

void SessionHub::OnSessionEnded(const SessionId& session, SessionEnd reason) {
  std::shared_ptr<Slot> slot;
  std::string pool;
  {
    const MutexLock lock(mutex_);
    const auto it = entries_.find(session);
    if (it == entries_.end()) return;
    it->second.end = reason;
    slot = std::move(it->second.slot);
    pool = it->second.pool->layout().spec.name;
  }
  if (slot != nullptr) {
    if (reason == SessionEnd::kTerminated) slot->Send(MakeNotice(v1::Notice::KIND_TERMINATED));
    slot->End(StreamStatus(session, reason));
  }
  spdlog::info("event=session_ended session={} pool={} reason={}", session.Short(), pool,
               ReasonText(reason));
  on_change_();
}

void SessionHub::OnSessionForgotten(const SessionId& session) {
  Forget(session);
  spdlog::debug("event=session_forgotten session={}", session.Short());
}

void SessionHub::OnMemberGone(const SessionId& session) {
  Send(session, MakeNotice(v1::Notice::KIND_MEMBER_GONE));
  spdlog::info("event=member_gone session={}", session.Short());
}

std::vector<std::shared_ptr<SessionHub::Slot>> SessionHub::Slots() const {
  std::vector<std::shared_ptr<Slot>> slots;
  const MutexLock lock(mutex_);
  for (const auto& [session, entry] : entries_) {
    if (entry.slot != nullptr) slots.push_back(entry.slot);
  }
  return slots;
}

std::optional<v1::Notice> SessionHub::StandingNotice() const {
  std::optional<v1::Notice> notice = standing_notice_;
  if (!notice.has_value() || !notice->has_deadline()) return notice;
  // What is left of the deadline, which was counted from when the others were told.
  const auto passed =
      std::chrono::floor<std::chrono::seconds>(std::chrono::steady_clock::now() - standing_time_);
  google::protobuf::Duration& deadline = *notice->mutable_deadline();
  deadline.set_seconds(std::max<int64_t>(0, deadline.seconds() - passed.count()));
  return notice;
}

}  // namespace kvpool::server
