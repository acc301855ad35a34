#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include <grpcpp/server.h>

#include "core/device/device.h"
#include "core/device/gpus.h"
#include "core/mutex.h"
#include "server/config.h"
#include "server/connection_watch.h"
#include "server/device_table.h"
#include "server/fd_budget.h"
#include "server/fd_service.h"
#include "server/listener.h"
#include "server/peer.h"
#include "server/pool_clock.h"
#include "server/pool_registry.h"
#include "server/process_table.h"
#include "server/rpc/services.h"
#include "server/rpc/watch_hub.h"
#include "server/session_hub.h"
#include "server/ticker.h"
#include "server/worker_pool.h"

namespace kvpool::server {

struct DaemonOptions {
  Config config;
  std::string version;
  Duration keepalive{};       // Between pings, and for their answers.
  Duration memory_wait{};     // How long pools of the config wait for memory.
  Duration reclaim_delay{};   // As ProcessTable's.
  Duration drain_deadline{};  // How long the end waits for sessions.
  double clock_rate = 1;      // As PoolClock's.
  bool trace = false;
  bool poison = false;
  // The program that is run to test whether workers can map a GPU's memory: this one's. Empty:
  // none is.
  std::string probe_program{};
  // Seams: where pools lie. Null: the host's own memory, the GPUs of the machine's driver.
  std::shared_ptr<Device> host{};
  std::shared_ptr<Gpus> gpus{};
};

// Daemon is kvpoold without its command line: it puts the parts together, makes the config's
// pools, serves, and ends in order.
class Daemon {
 public:
  // How a run ended. `has_hung_start`: pools were still being made, which nothing can interrupt:
  // the process is to end without destroying the Daemon.
  struct Outcome {
    absl::Status status;
    bool has_hung_start = false;
  };

  // Binds the sockets and serves; pools are made later. Makes nothing where a pool of the config
  // is wrong (INVALID_ARGUMENT) or can never fit in the host's memory (RESOURCE_EXHAUSTED, with the
  // bytes needed and available), or there can be too few descriptors (ShareFds). Errors of
  // Listener::Bind. GPUs are not touched yet, since a driver may hang.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(DaemonOptions options);
  // Ends the calls that are left, and frees the memory: for ever, where a driver hangs.
  ~Daemon();

  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Serves until RequestStop, then drains, and takes no more connections; the sockets are gone. Not
  // OK where the config's pools could not be made. Called once.
  Outcome Run();

  // Makes Run end: drains within `deadline` (absent: the options'), which of several requests the
  // earliest decides. `done` is called when no session is left or the deadline has passed, on any
  // thread. Thread-safe.
  void RequestStop(
      std::optional<Duration> deadline = std::nullopt, absl::AnyInvocable<void()> done = [] {});

  // Removes the sockets' files, for a process that ends without destroying the Daemon. Waits for
  // nothing; thread-safe.
  void RemoveSockets();

 private:
  explicit Daemon(DaemonOptions options);

  absl::Status PlanFds();
  absl::Status CheckPools() const;
  absl::Status Bind();
  absl::Status Serve();
  ServiceContext MakeContext();
  // What is found once, at the start.
  std::vector<std::string> FindWarnings() const;
  // Those, and what there is to warn of now.
  std::vector<std::string> Warnings() const;
  void Discard(std::vector<ServedPool> pools);

  void CreatePools(const std::stop_token& stop);
  absl::Status CreatePool(const PoolSpec& spec, TimePoint deadline, const std::stop_token& stop);
  // What falls due in the pools; when to come again, by steady_clock.
  std::optional<TimePoint> Advance();
  void OnProcessGone(ProcessId process);
  void OnSessionsChanged();

  void Drain();
  void TellOfDrain(TimePoint end);
  void EndDrain();
  void Shutdown();

  const DaemonOptions options_;
  const std::string epoch_;
  const std::chrono::system_clock::time_point start_time_ = std::chrono::system_clock::now();
  FdBudget fd_budget_;
  std::atomic<bool> starting_{true};
  std::atomic<bool> draining_{false};

  std::vector<std::string> start_warnings_;  // The same once it serves.

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  // When the drain ends; absent until a stop is requested.
  std::optional<TimePoint> drain_end_ ABSL_GUARDED_BY(mutex_);
  // Called when it has ended.
  std::vector<absl::AnyInvocable<void()>> on_drained_ ABSL_GUARDED_BY(mutex_);
  bool is_drained_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> start_failure_ ABSL_GUARDED_BY(mutex_);
  // What the start waits for, in words; empty: nothing.
  std::string waiting_for_ ABSL_GUARDED_BY(mutex_);
  ConnectionWatch* watch_ ABSL_GUARDED_BY(mutex_) = nullptr;  // Of whoever is told of a process.

  const PoolClock clock_{options_.clock_rate};
  // Each uses those above it; Shutdown ends them from the last to the first.
  std::vector<std::unique_ptr<Listener>> listeners_;  // The same from Start to the end.
  Ticker ticker_;
  SessionHub hub_;
  WatchHub watches_;
  MemoryBudget call_memory_{kMaxCallBytes};
  WorkerPool workers_;
  FairQueue long_calls_;
  WorkerPool creation_;
  WorkerPool gpu_work_;
  const std::shared_ptr<Device> host_;
  DeviceTable devices_;
  PoolRegistry registry_;
  PeerTable peers_;
  std::unique_ptr<ProcessTable> processes_;
  std::unique_ptr<Services> services_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<FdService> fds_;
  std::unique_ptr<ConnectionWatch> connections_;
  std::jthread startup_;
};

}  // namespace kvpool::server
