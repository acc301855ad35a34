#include "server/acceptor.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>

#include <spdlog/spdlog.h>

namespace kvpool::server {
namespace {

constexpr size_t kMaxTaken = 64;
constexpr Duration kPause = std::chrono::milliseconds(100);

UniqueFd OpenSpare() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

Acceptor::Acceptor(Poller& poller, int listener, uint64_t token)
    : poller_(poller), listener_(listener), token_(token), spare_(OpenSpare()) {
  Watch();
}

Acceptor::~Acceptor() {
  if (!resume_time_.has_value()) poller_.Remove(listener_);
}

void Acceptor::Watch() {
  resume_time_.reset();
  if (!poller_.Add(listener_, EPOLLIN, token_).ok()) {
    resume_time_ = std::chrono::steady_clock::now() + kPause;
  }
}

void Acceptor::Pause() {
  poller_.Remove(listener_);
  resume_time_ = std::chrono::steady_clock::now() + kPause;
}

void Acceptor::Resume() {
  if (resume_time_.has_value() && *resume_time_ <= std::chrono::steady_clock::now()) Watch();
}

bool Acceptor::TurnAway() {
  spare_.Reset();
  const UniqueFd unwanted(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  return unwanted.is_valid();
}

std::vector<UniqueFd> Acceptor::Take() {
  std::vector<UniqueFd> taken;
  while (taken.size() < kMaxTaken) {
    UniqueFd fd(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.is_valid()) {
      taken.push_back(std::move(fd));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    const int error = errno;
    const bool turned_away = (error == EMFILE || error == ENFILE) && TurnAway();
    if (!spare_.is_valid()) spare_ = OpenSpare();
    spdlog::warn("event=accept_failed errno={} turned_away={}", error, turned_away);
    Pause();
    break;
  }
  return taken;
}

}  // namespace kvpool::server
