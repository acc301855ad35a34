#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include <grpcpp/server_builder.h>

#include "core/executor.h"
#include "server/device_table.h"
#include "server/fair_queue.h"
#include "server/memory_budget.h"
#include "server/peer.h"
#include "server/pool_registry.h"
#include "server/rpc/watch_hub.h"
#include "server/session_hub.h"

namespace kvpool::server {

// What the services work with. All of it outlives them.
struct ServiceContext {
  PoolRegistry& pools;
  SessionHub& sessions;
  WatchHub& watches;
  PeerTable& peers;
  ProcessTable& processes;
  FairQueue& workers;         // What is long: hashing, lists of thousands of blocks.
  Executor& creation;         // Creating and deleting pools: longer, and rare.
  Executor& gpus;             // The same of pools on GPUs, and planning them: a driver may hang.
  MemoryBudget& call_memory;  // What the calls in progress hold, of kMaxCallBytes.
  LedgerLimits limits;
  uint32_t max_message_bytes;
  std::string version;
  std::string daemon_epoch;
  std::chrono::system_clock::time_point start_time;
  Clock clock;
  bool trace;
  std::function<std::vector<std::string>()> warnings;  // What GetDaemon is to warn of now.
  DeviceTable& devices;
  // Ends the daemon as `AdminService.Drain` says: within `deadline`, absent: the daemon's own.
  // `done` is called when no session is left, or the deadline has passed. Never blocks.
  std::function<void(std::optional<Duration> deadline, absl::AnyInvocable<void()> done)> drain;
  // Set by the daemon: OpenSession and CreatePool are refused with STARTING or DRAINING.
  std::atomic<bool>& starting;
  std::atomic<bool>& draining;
};

// The gRPC services: they translate, check the peer's role and call; they decide nothing.
// Destroyed after the server that they are registered with.
class Services {
 public:
  explicit Services(ServiceContext context);
  ~Services();

  Services(const Services&) = delete;
  Services& operator=(const Services&) = delete;

  // Registers BlockService, InspectService and AdminService. Each of their calls first passes the
  // check of what its peer's role allows; health and reflection are for all.
  void Register(grpc::ServerBuilder& builder);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace kvpool::server
