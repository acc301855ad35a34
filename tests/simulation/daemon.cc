#include "tests/simulation/daemon.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/status_macros.h"
#include "server/limits.h"
#include "server/rpc/alloc_call.h"
#include "server/rpc/attach_stream.h"
#include "server/rpc/cache_calls.h"
#include "server/rpc/close_session.h"
#include "server/rpc/open_session.h"
#include "server/rpc/reference_calls.h"

namespace kvpool::simulation {
namespace {

constexpr char kPool[] = "p";

LedgerLimits MakeLimits(const DaemonOptions& options) {
  LedgerLimits limits;
  limits.max_idempotency_keys = options.max_idempotency_keys;
  limits.reclaim_slice = 2;  // So that sessions end in slices.
  return limits;
}

// One token a block, whose bytes are a Stamp.
PoolSpec MakeSpec(const DaemonOptions& options) {
  return {.name = kPool,
          .block_size = 1,
          .num_layers = 1,
          .dtype = "raw",
          .raw_token_bytes = sizeof(Stamp),
          .v_mode = VMode::kNone,
          .num_blocks = options.num_blocks,
          .eviction_policy = options.eviction_policy,
          .max_blocks_per_tenant = options.max_blocks_per_tenant};
}

template <typename Request>
Duration WaitOf(const Request& request) {
  return std::chrono::seconds(request.wait().seconds()) +
         std::chrono::nanoseconds(request.wait().nanos());
}

CallName NameOf(const std::string& session_id, uint64_t key) {
  return {.session = SessionId::Parse(session_id).value(), .key = key};
}

}  // namespace

// No call that is simulated asks it anything.
class Daemon::Processes final : public server::ProcessTable {
 public:
  absl::StatusOr<std::shared_ptr<const server::Process>> FromSocket(int /*socket*/) override {
    return absl::UnimplementedError("no sockets");
  }
  void ConnectionOpened(const server::Process& /*process*/) override {}
  void ConnectionClosed(const server::Process& /*process*/) override {}
  server::ReclaimProof weakest_proof() const override { return server::ReclaimProof::kPidfd; }
};

Daemon::Daemon(Scheduler& scheduler, uint64_t seed, const DaemonOptions& options)
    : scheduler_(scheduler),
      random_(seed),
      options_(options),
      limits_(MakeLimits(options)),
      is_running_(std::make_shared<bool>(true)),
      call_memory_(server::kMaxCallBytes),
      hub_([this] { Touch(); }),
      pools_({.limits = limits_,
              .clock = [this] { return scheduler_.now(); },
              // A daemon's generations are above all earlier ones'.
              .before_first_generation = [this] { return options_.epoch * 1'000'000'000; }},
             devices_, hub_),
      processes_(std::make_unique<Processes>()),
      context_(MakeContext(*this)) {
  const absl::StatusOr<server::ServedPool> served = pools_.Create(MakeSpec(options));
  KVPOOL_CHECK(served.ok());
  pool_ = served->pool;
  oracle_ = std::make_unique<Oracle>(scheduler_, *pool_);
}

server::ServiceContext Daemon::MakeContext(Daemon& daemon) {
  return {.pools = daemon.pools_,
          .sessions = daemon.hub_,
          .watches = daemon.watches_,
          .peers = daemon.peers_,
          .processes = *daemon.processes_,
          .workers = daemon.workers_,
          .creation = daemon.executor_,
          .gpus = daemon.executor_,
          .call_memory = daemon.call_memory_,
          .limits = daemon.limits_,
          .max_message_bytes = server::kMaxMessageBytes,
          .version = "simulated",
          .daemon_epoch = std::to_string(daemon.options_.epoch),
          .start_time = {},
          .clock = [&daemon] { return daemon.scheduler_.now(); },
          .trace = false,
          .warnings = {},
          .devices = daemon.devices_,
          .drain = {},
          .starting = daemon.starting_,
          .draining = daemon.draining_};
}

Daemon::~Daemon() { KVPOOL_CHECK(!*is_running_); }

std::shared_ptr<const server::Process> Daemon::NewProcess() {
  const uint64_t id = next_process_++;
  return std::make_shared<const server::Process>(ProcessId{id}, static_cast<pid_t>(id), /*uid=*/0,
                                                 server::ReclaimProof::kPidfd);
}

Daemon::ConnectionPtr Daemon::Connect(std::shared_ptr<const server::Process> process,
                                      const std::string& tenant) {
  std::erase_if(connections_, [](const ConnectionPtr& old) { return old->is_broken(); });
  connections_.push_back(std::make_shared<Connection>(
      std::make_shared<const server::Peer>(server::Peer{.connection = next_connection_++,
                                                        .role = v1::ROLE_WORKER,
                                                        .tenant = tenant,
                                                        .listener = "simulated",
                                                        .process = std::move(process)})));
  return connections_.back();
}

void Daemon::Break(Connection& connection) {
  if (std::exchange(connection.is_broken_, true)) return;
  for (const std::function<void()>& break_stream : std::exchange(connection.streams_, {})) {
    break_stream();
  }
  for (const std::weak_ptr<ArrivedCall>& weak : std::exchange(connection.calls_, {})) {
    if (const std::shared_ptr<ArrivedCall> call = weak.lock()) call->canceller.Cancel();
  }
  Touch();
}

void Daemon::ProcessGone(const server::Process& process) {
  process.MarkGone();
  pools_.ProcessGone(process.id());
  Touch();
}

void Daemon::OpenSession(Connection& connection, const v1::OpenSessionRequest& request,
                         v1::OpenSessionResponse& response, const Done& done) {
  done(server::OpenSession(context_, *connection.peer(), request, response));
  Touch();
}

void Daemon::CloseSession(Connection& connection, const v1::CloseSessionRequest& request,
                          const Done& done) {
  done(server::CloseSession(context_, *connection.peer(), request));
  Touch();
}

void Daemon::Keep(Connection& connection, const std::shared_ptr<ArrivedCall>& call) {
  std::erase_if(connection.calls_, [](const auto& weak) {
    const std::shared_ptr<ArrivedCall> old = weak.lock();
    return old == nullptr || old->is_answered;
  });
  connection.calls_.push_back(call);
}

void Daemon::Alloc(Connection& connection, const v1::AllocRequest& request,
                   v1::AllocResponse& response, const std::shared_ptr<ArrivedCall>& call,
                   const Done& done) {
  Keep(connection, call);
  if (request.has_wait()) WatchWait(call, WaitOf(request));
  server::Alloc(context_, *connection.peer(), request, response, call->canceller,
                [this, &request, &response, call, done](const absl::Status& status) {
                  if (status.ok()) {
                    oracle_->OnGranted(NameOf(request.session_id(), request.idempotency_key()),
                                       response.blocks(), 0, request.fill());
                  }
                  done(status);
                });
  Touch();
}

void Daemon::Acquire(Connection& connection, const v1::AcquireRequest& request,
                     v1::AcquireResponse& response, const std::shared_ptr<ArrivedCall>& call,
                     const Done& done) {
  Keep(connection, call);
  if (request.has_wait()) WatchWait(call, WaitOf(request));
  server::Acquire(context_, *connection.peer(), request, response, call->canceller,
                  [this, &request, &response, call, done](const absl::Status& status) {
                    if (status.ok()) {
                      oracle_->OnGranted(NameOf(request.session_id(), request.idempotency_key()),
                                         response.blocks(), response.matched_blocks(),
                                         request.fill());
                    }
                    done(status);
                  });
  Touch();
}

void Daemon::IncRef(Connection& connection, const v1::IncRefRequest& request, const Done& done) {
  const absl::Status status = server::IncRef(context_, *connection.peer(), request);
  if (status.ok()) {
    oracle_->OnAdded(NameOf(request.session_id(), request.idempotency_key()), request.blocks());
  }
  done(status);
  Touch();
}

void Daemon::DecRef(Connection& connection, const v1::DecRefRequest& request,
                    v1::DecRefResponse& response, const Done& done) {
  done(server::DecRef(context_, *connection.peer(), request, response));
  Touch();
}

void Daemon::Publish(Connection& connection, const v1::PublishRequest& request,
                     v1::PublishResponse& response, const Done& done) {
  const absl::Status status = server::Publish(context_, *connection.peer(), request, response);
  if (status.ok()) oracle_->OnPublished(request, response);
  done(status);
  Touch();
}

void Daemon::Lookup(Connection& connection, const v1::LookupRequest& request,
                    v1::LookupResponse& response, const Done& done) {
  const absl::Status status = server::Lookup(context_, *connection.peer(), request, response);
  if (status.ok() && request.acquire()) {
    oracle_->OnTaken(NameOf(request.session_id(), 0).session, response.blocks());
  }
  done(status);
  Touch();
}

void Daemon::Evict(Connection& connection, const v1::EvictRequest& request,
                   v1::EvictResponse& response, const Done& done) {
  done(server::Evict(context_, *connection.peer(), request, response));
  Touch();
}

absl::StatusOr<std::function<void()>> Daemon::KeepAlive(
    Connection& connection, const std::string& session_id,
    const std::shared_ptr<server::SessionStream>& stream) {
  KVPOOL_ASSIGN_OR_RETURN(const server::SessionCall session,
                          server::FindSession(hub_, "session_id", session_id));
  KVPOOL_RETURN_IF_ERROR(server::AttachStream(context_, session, *connection.peer(), stream));
  // As a KeepAlive's reactor does.
  const auto break_stream = [this, session, stream, is_running = is_running_] {
    if (!*is_running) return;
    session.pool->Detach(session.session);
    hub_.DropStream(session.session, stream.get());
    Touch();
  };
  connection.streams_.emplace_back(break_stream);
  Touch();
  return std::function<void()>(break_stream);
}

void Daemon::Terminate(const SessionId& session) {
  pool_->TerminateSession(session, /*release_claims=*/false).IgnoreError();
  Touch();
}

void Daemon::ResetPrefixes() {
  pool_->ResetPrefixes(std::nullopt);
  Touch();
}

void Daemon::WatchWait(const std::shared_ptr<ArrivedCall>& call, Duration wait) {
  const std::weak_ptr<ArrivedCall> weak = call;
  // By a look at the time less a deadline may be late.
  scheduler_.After(wait + std::chrono::milliseconds(21), [this, weak] {
    const std::shared_ptr<ArrivedCall> watched = weak.lock();
    // A fill takes its time on top.
    if (watched == nullptr || watched->is_answered || holds_fills_) return;
    scheduler_.Fail("a call waits past its deadline");
  });
}

void Daemon::HoldFills(bool hold) {
  holds_fills_ = hold;
  if (hold) {
    device_.Hold();
  } else {
    device_.Release();
  }
}

void Daemon::Stop() {
  for (const ConnectionPtr& connection : connections_) Break(*connection);
  device_.Release();
  *is_running_ = false;
}

void Daemon::Touch() { ScheduleTick(std::chrono::microseconds(random_.Below(20'000))); }

void Daemon::ScheduleTick(Duration delay) {
  const TimePoint time = scheduler_.now() + std::max(delay, Duration::zero());
  if (next_tick_.has_value() && *next_tick_ <= time) return;
  next_tick_ = time;
  scheduler_.After(delay, [this, time, is_running = is_running_] {
    if (*is_running && next_tick_ == time) {
      Tick();
    } else {
      scheduler_.CountNoStep();
    }
  });
}

void Daemon::Tick() {
  next_tick_.reset();
  // A fill takes until then.
  device_.CompleteOne();
  if (device_.held_count() > 0) Touch();
  const std::optional<TimePoint> due = pools_.Advance();
  if (due.has_value()) ScheduleTick(*due - scheduler_.now());
}

}  // namespace kvpool::simulation
