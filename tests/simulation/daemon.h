#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/executor.h"
#include "server/rpc/alloc_canceller.h"
#include "server/rpc/services.h"
#include "tests/simulation/oracle.h"
#include "tests/simulation/scheduler.h"
#include "tests/support/fake_device.h"

namespace kvpool::simulation {

// What a pool is like.
struct DaemonOptions {
  uint32_t num_blocks = 8;
  uint32_t max_blocks_per_tenant = 0;
  uint32_t max_idempotency_keys = 64;
  std::string eviction_policy = "leaf_lru";
  uint64_t epoch = 1;  // Of daemons of one world, each has another, ever higher.
};

// A call that has arrived at a daemon: what lives until it is answered.
struct ArrivedCall {
  virtual ~ArrivedCall() = default;
  server::AllocCanceller canceller;
  bool is_answered = false;
};

// A daemon of one pool, as its sockets see it: what kvpoold puts together, without gRPC, threads
// and sockets. Its callers are told of answers by `done` functions, at any time.
class Daemon {
 public:
  using Done = std::function<void(const absl::Status&)>;

  // A worker's connection, at this end.
  class Connection {
   public:
    explicit Connection(std::shared_ptr<const server::Peer> peer) : peer_(std::move(peer)) {}

    const std::shared_ptr<const server::Peer>& peer() const { return peer_; }
    bool is_broken() const { return is_broken_; }

   private:
    friend class Daemon;
    const std::shared_ptr<const server::Peer> peer_;
    bool is_broken_ = false;
    std::vector<std::weak_ptr<ArrivedCall>> calls_;
    std::vector<std::function<void()>> streams_;  // Each breaks one.
  };
  using ConnectionPtr = std::shared_ptr<Connection>;

  Daemon(Scheduler& scheduler, uint64_t seed, const DaemonOptions& options);
  // Requires Stop.
  ~Daemon();

  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  std::shared_ptr<const server::Process> NewProcess();
  ConnectionPtr Connect(std::shared_ptr<const server::Process> process, const std::string& tenant);
  // Nobody is at its other end any more.
  void Break(Connection& connection);
  // The kernel says that a process is gone.
  void ProcessGone(const server::Process& process);

  // Calls that a connection brings. `done` is called once, maybe before this returns.
  void OpenSession(Connection& connection, const v1::OpenSessionRequest& request,
                   v1::OpenSessionResponse& response, const Done& done);
  void CloseSession(Connection& connection, const v1::CloseSessionRequest& request,
                    const Done& done);
  void Alloc(Connection& connection, const v1::AllocRequest& request, v1::AllocResponse& response,
             const std::shared_ptr<ArrivedCall>& call, const Done& done);
  void Acquire(Connection& connection, const v1::AcquireRequest& request,
               v1::AcquireResponse& response, const std::shared_ptr<ArrivedCall>& call,
               const Done& done);
  void IncRef(Connection& connection, const v1::IncRefRequest& request, const Done& done);
  void DecRef(Connection& connection, const v1::DecRefRequest& request,
              v1::DecRefResponse& response, const Done& done);
  void Publish(Connection& connection, const v1::PublishRequest& request,
               v1::PublishResponse& response, const Done& done);
  void Lookup(Connection& connection, const v1::LookupRequest& request,
              v1::LookupResponse& response, const Done& done);
  void Evict(Connection& connection, const v1::EvictRequest& request, v1::EvictResponse& response,
             const Done& done);
  // Attaches a session to `stream`. Returns what breaks it from the other end.
  absl::StatusOr<std::function<void()>> KeepAlive(
      Connection& connection, const std::string& session_id,
      const std::shared_ptr<server::SessionStream>& stream);

  // An operator's.
  void Terminate(const SessionId& session);
  void ResetPrefixes();

  // Fills wait for a while from now on, or no more.
  void HoldFills(bool hold);

  // Ends all calls and streams, as the end of the process does.
  void Stop();

  Oracle& oracle() { return *oracle_; }
  Pool& pool() { return *pool_; }
  size_t session_count() const { return hub_.size(); }
  uint64_t epoch() const { return options_.epoch; }

 private:
  class Processes;

  static server::ServiceContext MakeContext(Daemon& daemon);
  // Has time pass for the pool, soon.
  void Touch();
  void ScheduleTick(Duration delay);
  void Tick();
  static void Keep(Connection& connection, const std::shared_ptr<ArrivedCall>& call);
  // Fails where the call, which may wait for `wait`, is not answered by then.
  void WatchWait(const std::shared_ptr<ArrivedCall>& call, Duration wait);

  Scheduler& scheduler_;
  test::Random random_;
  const DaemonOptions options_;
  const LedgerLimits limits_;
  std::shared_ptr<bool> is_running_;  // Events of what has stopped do nothing.

  InlineExecutor executor_;
  server::FairQueue workers_{executor_, 1};
  server::MemoryBudget call_memory_;
  test::FakeDevice device_;
  server::DeviceTable devices_{device_};
  server::SessionHub hub_;
  server::WatchHub watches_;
  server::PoolRegistry pools_;
  server::PeerTable peers_;
  std::unique_ptr<Processes> processes_;
  std::atomic<bool> starting_ = false;
  std::atomic<bool> draining_ = false;
  const server::ServiceContext context_;
  std::shared_ptr<Pool> pool_;
  std::unique_ptr<Oracle> oracle_;

  std::vector<ConnectionPtr> connections_;
  uint64_t next_process_ = 1;
  uint64_t next_connection_ = 1;
  std::optional<TimePoint> next_tick_;
  bool holds_fills_ = false;
};

}  // namespace kvpool::simulation
