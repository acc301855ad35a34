#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/cancellation.h"
#include "tests/simulation/daemon.h"
#include "tests/simulation/scheduler.h"

namespace kvpool::simulation {

// What goes wrong between workers and the daemon: each once in so many calls; 0 never.
struct Weather {
  uint32_t lost_requests = 0;
  uint32_t lost_answers = 0;
  uint32_t doubled = 0;  // Arrives once more, later.
  uint32_t slow = 0;     // Takes up to 10 s each way.
};

// What all workers reach the daemon by.
struct Network {
  Daemon* daemon = nullptr;  // Null while none runs.
  Weather weather;
};

// A call that a worker waits for.
struct Flight {
  WaitPtr wait;
  bool is_over = false;
  absl::Status status{};
};
using FlightPtr = std::shared_ptr<Flight>;

// One process's way to the daemon: a connection at a time, and what waits for answers on it.
class Link {
 public:
  // All outlive it.
  Link(Process& process, Network& network, std::string tenant)
      : process_(process), network_(network), tenant_(std::move(tenant)) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // The connection, made anew where it is broken; null where there is no daemon.
  Daemon::ConnectionPtr Connect();

  // Whether it is what Connect last gave, and whole as far as the worker knows.
  bool IsCurrent(const Daemon::ConnectionPtr& connection) const {
    return connection_ == connection && !connection->is_broken();
  }
  // How often a connection broke.
  uint32_t break_count() const { return break_count_; }

  // The running fiber's; ended by Await.
  FlightPtr Begin();
  // Waits until it is over, at most for `timeout` or until cancelled.
  absl::Status Await(const FlightPtr& flight, Duration timeout, client::Cancellation& cancellation);
  // From events of the process.
  void Finish(const FlightPtr& flight, absl::Status status);

  // The connection breaks: the daemon sees it after `delay`, the worker at once, and its calls end.
  void Break(Duration delay);
  // The daemon breaks the connection; the worker sees it when it runs.
  void BreakByDaemon();
  // The kernel tells the daemon that the process is gone.
  void TellGone();

  // What the daemon has made of calls with that key so far. Of 0, nothing is known.
  void KeyArrives(uint64_t key) { ++keys_[key].pending; }
  void KeyIsAnswered(uint64_t key, bool is_ok);
  // Whether none of them waits and none has failed.
  bool MayRepeat(uint64_t key) const;

  // How many keyed calls the worker has made.
  uint64_t keyed_calls = 0;

  Process& process() { return process_; }
  Network& network() { return network_; }

 private:
  struct Key {
    int pending = 0;
    bool has_failed = false;
  };

  void FinishAll(const absl::Status& status);

  Process& process_;
  Network& network_;
  const std::string tenant_;
  Daemon::ConnectionPtr connection_;
  std::shared_ptr<const server::Process> known_as_;  // To the daemon of that epoch.
  uint64_t epoch_ = 0;
  uint32_t break_count_ = 0;
  std::vector<FlightPtr> flights_;
  std::map<uint64_t, Key> keys_;
};

}  // namespace kvpool::simulation
