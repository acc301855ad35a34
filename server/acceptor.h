#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ids.h"
#include "server/poller.h"
#include "server/unique_fd.h"

namespace kvpool::server {

// Acceptor takes connections off one listening socket that a Poller watches. It never makes its
// thread spin: where the process has no descriptors left, it takes the connection with one kept
// for that and closes it; where even that fails, it looks away for a while.
//
// Belongs to the poller's thread.
class Acceptor {
 public:
  // Watches `listener`, a non-blocking socket that outlives it, under `token`.
  Acceptor(Poller& poller, int listener, uint64_t token);
  ~Acceptor();

  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // The connections that wait, at most 64, non-blocking.
  std::vector<UniqueFd> Take();

  // When to call Resume; absent: it is watching.
  std::optional<TimePoint> resume_time() const { return resume_time_; }
  // Watches again, if the time has come.
  void Resume();

 private:
  void Watch();
  void Pause();
  // Takes one connection in vain. False where not even that can be done.
  bool TurnAway();

  Poller& poller_;
  const int listener_;
  const uint64_t token_;
  UniqueFd spare_;
  std::optional<TimePoint> resume_time_;
};

}  // namespace kvpool::server
