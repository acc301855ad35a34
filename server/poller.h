#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/ids.h"
#include "server/unique_fd.h"

namespace kvpool::server {

// Poller waits, for one thread, until one of many file descriptors is ready, a time has come or
// another thread wakes it. Level-triggered: what is ready is told again until it is not.
//
// Add, Remove and Wake are thread-safe; Wait belongs to one thread.
class Poller {
 public:
  struct Event {
    uint64_t token = 0;
    uint32_t events = 0;  // EPOLLIN and so on.
  };

  // RESOURCE_EXHAUSTED where the kernel gives no more descriptors.
  static absl::StatusOr<std::unique_ptr<Poller>> Create();

  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // Watches `fd`, which Remove must be called for before it is closed: a copy of it elsewhere
  // would keep it watched. `token` is not kWakeToken. RESOURCE_EXHAUSTED where the kernel has no
  // room.
  absl::Status Add(int fd, uint32_t events, uint64_t token);
  void Remove(int fd);

  // What is ready, at most 64 at once; empty where `until` came or another thread woke it. Absent
  // `until`: no time limit. The span is valid until the next call.
  std::span<const Event> Wait(std::optional<TimePoint> until);

  // Ends the Wait in progress, or the next one.
  void Wake();

  static constexpr uint64_t kWakeToken = ~uint64_t{0};

 private:
  static constexpr size_t kMaxEvents = 64;

  Poller(UniqueFd epoll, UniqueFd wake) : epoll_(std::move(epoll)), wake_(std::move(wake)) {}

  const UniqueFd epoll_;
  const UniqueFd wake_;
  std::array<epoll_event, kMaxEvents> ready_{};
  std::array<Event, kMaxEvents> events_{};
};

}  // namespace kvpool::server
