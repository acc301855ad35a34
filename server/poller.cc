#include "server/poller.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/memory/memory.h"

#include "core/check.h"
#include "core/status_macros.h"
#include "server/system_error.h"

namespace kvpool::server {
namespace {

// epoll counts in milliseconds: rounded up, so that a time that has been waited for has come.
int TimeoutMs(std::optional<TimePoint> until) {
  if (!until.has_value()) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(*until - std::chrono::steady_clock::now());
  constexpr int64_t kLongest = 3'600'000;  // An hour: the caller looks at the time anyway.
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, kLongest));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Poller>> Poller::Create() {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.is_valid()) return SystemError("epoll_create1", errno);
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.is_valid()) return SystemError("eventfd", errno);
  auto poller = absl::WrapUnique(new Poller(std::move(epoll), std::move(wake)));
  KVPOOL_RETURN_IF_ERROR(poller->Add(poller->wake_.get(), EPOLLIN, kWakeToken));
  return poller;
}

absl::Status Poller::Add(int fd, uint32_t events, uint64_t token) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return SystemError("epoll_ctl", errno);
  }
  return absl::OkStatus();
}

void Poller::Remove(int fd) {
  epoll_event unused{};
  const int result = epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, &unused);
  KVPOOL_CHECK(result == 0 || errno == ENOENT);
}

std::span<const Poller::Event> Poller::Wait(std::optional<TimePoint> until) {
  const int count = epoll_wait(epoll_.get(), ready_.data(), kMaxEvents, TimeoutMs(until));
  KVPOOL_CHECK(count >= 0 || errno == EINTR);
  size_t kept = 0;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = ready_[static_cast<size_t>(i)];
    if (event.data.u64 == kWakeToken) {
      uint64_t wakes = 0;
      // It only has to be empty afterwards; what is read, and whether, tells nothing more.
      [[maybe_unused]] const ssize_t size = read(wake_.get(), &wakes, sizeof(wakes));
      continue;
    }
    events_[kept++] = {.token = event.data.u64, .events = event.events};
  }
  return {events_.data(), kept};
}

void Poller::Wake() {
  const uint64_t one = 1;
  // Fails only where so many wakes are pending already that one more says nothing.
  [[maybe_unused]] const ssize_t size = write(wake_.get(), &one, sizeof(one));
}

}  // namespace kvpool::server
